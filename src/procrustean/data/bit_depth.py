"""16-bit images that use the lower bits alone, as those of X-ray and microscope cameras do: cut to eight bits, they are
dark."""

from __future__ import annotations

from PIL import Image

#: The format whose 16-bit pixels Pillow hands out as 32-bit ones, from 0 to 65535.
NETPBM = "PPM"
#: Images that use more of their 16 bits lose little by being cut to the upper eight.
MOST_BITS, NEARLY_BLACK = 14, 12


def is_16_bit_grey(image: Image.Image) -> bool:
    """Whether Pillow hands out all 16 bits of an image, which it does of grey ones alone."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == NETPBM)


class BitDepth:
    """How many bits the 16-bit images of a set use, gathered while they are decoded, by several threads."""

    def __init__(self) -> None:
        self._highest: list[int] = []  # value of each 16-bit image

    def look_at(self, image: Image.Image) -> None:
        """Note an image that has been opened and not been decoded yet."""
        if is_16_bit_grey(image):
            self._highest.append(int(_highest(image)))
        # Of colours Pillow keeps the upper eight bits; how they are packed in the file tells that there were more.
        elif any(";16" in str(tile[3]) for tile in getattr(image, "tile", ())):
            self._highest.append(256 * int(_highest(image)) + 255)

    def text(self) -> str:
        """What to do if the images use few of their bits; empty if there is nothing to do."""
        highest = max(self._highest, default=0)
        bits = highest.bit_length()
        if not 0 < bits <= MOST_BITS:
            return ""
        number = len(self._highest)
        images = "1 image of 16 bits uses" if number == 1 else f"{number} images of 16 bits use"
        dark = "nearly black" if bits <= NEARLY_BLACK else "dark"
        factor = 2 ** (16 - bits)
        return (
            f"{images} {bits} of them at most: no value is above {highest} of 65535. The upper eight bits are used, "
            f"which makes them {dark}, {highest >> 8} of 255 at most. Rescale them to the full range, by ImageMagick: "
            f"magick mogrify -evaluate multiply {factor} FILES, or grey ones in Python: "
            f"Image.fromarray(np.asarray(Image.open(path)) * {factor}).save(path)"
        )


def _highest(image: Image.Image) -> float:
    found = image.getextrema()
    if not isinstance(found[0], tuple):
        return float(found[1])
    bands = zip(image.getbands(), found, strict=True)
    return max(high for band, (_, high) in bands if band != "A")
