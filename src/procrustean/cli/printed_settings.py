"""What --dry-run prints: all settings as YAML, and what they resolve to as comments."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, replace

from procrustean.cli.config_file import config_as_yaml
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec


def settings_text(config: RunSpec, tuned: Collection[str] = ()) -> str:
    """All settings, filled in for images that are there, and the method and recipe they resolve to.

    Args:
        config: the settings.
        tuned: options of the method that differ between runs with these settings.
    """
    from procrustean.base.code_files import plain_name
    from procrustean.base.paths import expanded
    from procrustean.cli.resolved import method_comments
    from procrustean.data.recipes import RECIPES
    from procrustean.data.sources import is_named
    from procrustean.runs.advice.plan_training import planned, trained_on
    from procrustean.runs.preparing import recipe_of
    from procrustean.runs.training_sizes import training_counts

    def named(settings: RunSpec) -> RunSpec:
        return replace(settings, method="mfw") if settings.method in (ADVISED, AUTO) else settings

    recipe_of(named(config))  # what is wrong with the settings is said before images are loaded
    images = None
    if is_named(config.source) or expanded(config.source).exists():
        plan = planned(config)
        config, images = plan.config, plan.splits
    elif config.method == ADVISED:
        config = named(config)
    recipe = recipe_of(named(config))
    comments = "".join(f"# {name}: {value}\n" for name, value in asdict(recipe).items() if name != "name")
    own = f", as {plain_name(config.method)} was published" * (config.recipe == "own")
    title = f"# The recipe these settings resolve to: {recipe.name}, {RECIPES[recipe.name][1]}{own}\n"
    # Which methods are compared, --method auto decides when it runs.
    if config.method == AUTO:
        return config_as_yaml(config) + title + comments
    # The largest class first, as methods see them.
    counts = training_counts(config) if images is None else sorted(trained_on(config, images), reverse=True)
    return config_as_yaml(config) + method_comments(config, recipe, tuned, counts) + title + comments
