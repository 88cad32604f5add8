"""Which image files are to be classified, and their pixels by the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..data.folders import entries_of
from ..data.image_files import ImageFile, Problems, decoded
from ..data.imageset import Images
from ..errors import DataError

#: In folders, files with other endings are passed over.
SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}


def collect(paths: Sequence[str | Path]) -> tuple[list[ImageFile], int]:
    """The images at these paths, folders with all that is below them, and how many other files were passed over."""
    if not paths:
        raise DataError("no images to classify received; give image files, or folders with images, behind the model")
    files: list[ImageFile] = []
    other = 0
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            found = list(_below(path))
            images = [file for file in found if file.suffix.lower() in SUFFIXES]
            other += len(found) - len(images)
            files += [ImageFile(str(file), file, "", "") for file in images]
        elif path.exists():
            files.append(ImageFile(str(path), path, "", ""))
        else:
            raise DataError(f"{given}: there is no such file or folder")
    if not files:
        named = ", ".join(str(path) for path in paths)
        raise DataError(f"{named}: holds no images; known endings: {', '.join(sorted(SUFFIXES))}")
    return files, other


def batches(
    files: Sequence[ImageFile], shape: tuple[int, int, int], size: int
) -> Iterator[tuple[Sequence[ImageFile], Images, Problems]]:
    """Files, their pixels and what is wrong with some of them, `size` at a time."""
    for start in range(0, len(files), size):
        part = files[start : start + size]
        bad: Problems = {}
        yield part, decoded(part, shape, bad), bad


def _below(folder: Path) -> Iterator[Path]:
    for path in entries_of(folder):
        if path.is_dir():
            yield from _below(path)
        else:
            yield path
