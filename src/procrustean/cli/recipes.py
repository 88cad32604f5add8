"""procrustean recipes"""

from __future__ import annotations

from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Recipes:
    """List the training recipes, or show all numbers of one."""

    name: tyro.conf.Positional[str | None] = None
    """Recipe to show; without it all are listed."""

    def run(self) -> int:
        import yaml

        from procrustean.base.console import write_result
        from procrustean.base.errors import ConfigError, did_you_mean
        from procrustean.data.recipes import OWN_IMAGES, PAPER, RECIPES

        if self.name is None:
            width = max(map(len, RECIPES))
            lines = [f"{name:{width}}  {about}" for name, (_, about) in RECIPES.items()]
            write_result("\n".join([*lines, "", "procrustean recipes NAME shows one; train --recipe NAME takes it."]))
            return 0
        if self.name not in RECIPES:
            raise ConfigError(f"there is no recipe {self.name!r}. {did_you_mean(self.name, RECIPES)}")
        recipe, about = RECIPES[self.name]
        sources = [source for source, name in PAPER.items() if name == self.name]
        taken = f"# taken by itself on {', '.join(sources)}\n" if sources else ""
        if self.name == OWN_IMAGES:
            taken += "# padding is that of 32 x 32 images; of others it is an eighth of their longer side\n"
        numbers = yaml.safe_dump(recipe.to_json(), sort_keys=False, default_flow_style=None)
        write_result(f"# {about}\n{taken}{numbers}".rstrip())
        return 0
