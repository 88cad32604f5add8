"""What may be done to images in training, by name: parts, and parts that recipes name together."""

from __future__ import annotations

from procrustean.base.errors import ConfigError, did_you_mean

#: What may be done to images, in this order; `padding`, `crop`, `crop_area` and `colour_jitter` of a recipe say more.
PARTS = {
    "pad_crop": "black pixels added on each side, a random window of it",
    "resized_crop": "a random part of the area, brought to size",
    "flip": "mirrored or not, left to right",
    "autoaugment": "AutoAugment's policy for CIFAR",
    "randaugment": "two of 13 operations, moderately strong (RandAugment)",
    "vertical_flip": "mirrored or not, top to bottom",
    "rotate": "turned by up to 15 degrees",
    "colour": "brightness, contrast and saturation changed",
    "cutout": "a black hole of 16 x 16 pixels",
    "erase": "every other image loses a random rectangle, which becomes its mean colour",
}
#: Parts that recipes name together. What mirrors images here does so only if `flip` of the recipe says so, too.
NAMES = {
    "pad_crop_flip": ("pad_crop", "flip"),
    "random_resized_crop": ("resized_crop", "flip"),
    "strong": ("pad_crop", "flip", "autoaugment", "cutout"),
    "none": (),
}
#: Largest change of colours where the recipe says none.
JITTER = 0.4


def parts_of(name: str) -> tuple[str, ...]:
    """The parts that an augmentation is made of; ConfigError for what is none.

    >>> parts_of("pad_crop_flip"), parts_of("resized_crop+erase")
    (('pad_crop', 'flip'), ('resized_crop', 'erase'))
    """
    if name in NAMES:
        return NAMES[name]
    parts = tuple(name.split("+"))
    for part in parts:
        if part not in PARTS:
            known = (*NAMES, *PARTS)
            raise ConfigError(f"there is no augmentation {part!r}. {did_you_mean(part, known)} Join parts with +")
    for one, other in (("pad_crop", "resized_crop"), ("autoaugment", "randaugment")):
        if {one, other} <= set(parts):
            raise ConfigError(f"augment {name!r} received; {one} and {other} exclude one another")
    if len(set(parts)) < len(parts):
        raise ConfigError(f"augment {name!r} received; name each part once")
    return parts
