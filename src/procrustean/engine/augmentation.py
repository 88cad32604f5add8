"""What of a recipe's augmentation can be carried out."""

from __future__ import annotations

from ..errors import ConfigError
from ..recipes import Recipe

AUGMENTS = ("pad_crop_flip", "flip", "none")


def check_augmentation(recipe: Recipe, size: tuple[int, ...]) -> None:
    """ConfigError for what the trainer does not do yet: parts of another size, changed colours, policies.

    Args:
        recipe: how images are to be changed.
        size: height and width of the images.
    """
    if recipe.augment not in AUGMENTS or recipe.colour_jitter:
        jitter = f" with colour_jitter {recipe.colour_jitter:g}" if recipe.colour_jitter else ""
        raise ConfigError(
            f"the recipe {recipe.name!r} augments by {recipe.augment!r}{jitter}, which cannot be carried out here; "
            f"choose --augment {', '.join(AUGMENTS[:-1])} or {AUGMENTS[-1]}"
        )
    for name in ("crop", "evaluation_crop"):
        side = getattr(recipe, name)
        if side is not None and tuple(size) != (side, side):
            raise ConfigError(
                f"the recipe {recipe.name!r} shows the network {side} x {side} pixels ({name}) of images of "
                f"{size[1]} x {size[0]}, which cannot be carried out here; give images of that size (for a folder: "
                f"--image-size {side})"
            )
