"""A store in the making: parts are decoded by worker processes, noted when they are on disk, and never done twice."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from procrustean.base.errors import DataError
from procrustean.base.version import __version__
from procrustean.data.download import Say
from procrustean.data.image_files import FORMATS, Problems, convertible, reason
from procrustean.data.stores.listing import Listing, Part, Resize
from procrustean.data.stores.store import FORMAT, MANIFEST, Store, content_digest, open_store
from procrustean.data.workers import Job, Prefetcher, WorkerPool

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Chunk:
    """Images that stand together in the store."""

    images: list[str | bytes | Pixels]  # paths, encoded images, or pixels
    file: str  # of the store
    offset: int  # in bytes
    size: int  # side in pixels
    resize: Resize


@dataclass
class Decoded:
    """What became of a chunk."""

    sha256: str = ""  # of its bytes in the store
    damaged: dict[int, str] = field(default_factory=dict)  # place in the chunk -> why; black in the store


def decode_chunk(chunk: Chunk) -> Decoded:
    """Decode the images of a chunk and write them; returns when they are on disk."""
    done = Decoded()
    pixels = np.zeros((len(chunk.images), chunk.size, chunk.size, 3), np.uint8)
    for place, image in enumerate(chunk.images):
        try:
            decode(image, pixels[place], chunk.resize)
        except Exception as error:  # decoders raise nearly anything on damaged files
            done.damaged[place] = _reason(image, error)
            pixels[place] = 0
    done.sha256 = hashlib.sha256(pixels.data).hexdigest()
    try:
        with open(chunk.file, "r+b") as file:
            file.seek(chunk.offset)
            file.write(pixels.data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(
            f"cannot write {chunk.file}: {error.strerror or error}. What has been decoded is kept: make room, or mend "
            "what is wrong with the disk, and give the same command again, which goes on from there"
        ) from error
    return done


def decode(image: str | bytes | Pixels, out: Pixels, resize: Resize) -> None:
    """Write an image, brought to the size of `out`, into it.

    "crop" brings the shorter side to size and keeps the middle, "stretch" brings both sides to size. Orientation tags
    are not followed, as they are not in the usual loaders of these data sets.
    """
    size = out.shape[0]
    if isinstance(image, np.ndarray):
        opened = Image.fromarray(image)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of broken orientation tags, which are not used
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(image if isinstance(image, str) else io.BytesIO(image), formats=FORMATS)
            opened.load()
    with opened:
        rgb = convertible(opened).convert("RGB")
    width, height = rgb.size
    box = (0.0, 0.0, float(width), float(height))
    if resize == "crop" and width != height:
        # The square of the middle, brought to size at once: resizing first and cropping then would give the same but
        # for the rounding of the longer side.
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    if rgb.size != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR, box=box)
    out[:] = np.asarray(rgb)


def _reason(image: str | bytes | Pixels, error: Exception) -> str:
    if isinstance(error, FileNotFoundError | PermissionError):
        return error.strerror or str(error)
    return reason(Path(image), error) if isinstance(image, str) else f"damaged: {error}"


#: Told how many of how many images are done.
Progress = Callable[[int, int], None]
CHUNK_BYTES = 16 << 20


class Building:
    """The store of a listing, beside its place until it is complete.

    Args:
        listing: what goes into it.
        target: its place.
        name, size, resize: of the data set, the stored images, and how they become square.
    """

    def __init__(self, listing: Listing, target: Path, *, name: str, size: int, resize: Resize) -> None:
        self.listing, self.target, self.name, self.size, self.resize = listing, target, name, size, resize
        self.draft = target.with_name(f".{target.name}.partial")
        self.images = sum(len(part.labels) for part in listing.parts.values())
        self.chunk_images = max(1, CHUNK_BYTES // (size * size * 3))
        self.done: dict[int, Decoded] = {}

    @property
    def listing_digest(self) -> str:
        """sha256 (hex) of the images that go in and how they are stored."""
        digest = hashlib.sha256(json.dumps([self.name, self.size, self.resize, self.listing.classes]).encode())
        for split, part in self.listing.parts.items():
            names = "\n".join(part.name(row) for row in range(len(part.labels)))
            digest.update(f"{split}\n{names}\n".encode())
            digest.update(np.ascontiguousarray(part.labels, "<i8").data)
        return digest.hexdigest()

    def refuse_other(self, store: Store) -> None:
        """DataError if a store holds other images than these."""
        if store.manifest["listing"] != self.listing_digest:
            raise DataError(
                f"{store.path} was prepared from other images or in another way ({store.manifest['source']}); "
                "remove the folder to prepare it again, or choose another place with --data-dir"
            )

    def decode_all(self, workers: int, *, keep_damaged: bool, say: Say, progress: Progress) -> Problems:
        """Decode whatever is not decoded yet; returns the images that could not be.

        Args:
            workers: processes at a time.
            keep_damaged: whether a part with damaged images is done. A later call decodes it again: they may be mended.
            say, progress: see `prepare`.
        """
        offset = self._open_draft(say)
        pool = WorkerPool(decode_chunk, workers)
        ahead: Prefetcher[tuple[int, Decoded]] = Prefetcher(workers, slots=2 * workers)
        todo = [number for number in range(-(-self.images // self.chunk_images)) if number not in self.done]
        finished = self.images - sum(self._length(number) for number in todo)
        problems: Problems = {}
        try:
            progress(finished, self.images)
            ahead.start(self._jobs(todo, offset, pool))
            with (self.draft / "done.jsonl").open("a") as journal:
                for _ in todo:
                    number, decoded = ahead.take()
                    problems |= {self._name(number, int(at)): why for at, why in decoded.damaged.items()}
                    if keep_damaged or not decoded.damaged:
                        self.done[number] = decoded
                    if not decoded.damaged:
                        journal.write(json.dumps({"chunk": number, **vars(decoded)}) + "\n")
                        journal.flush()
                    finished += self._length(number)
                    progress(finished, self.images)
        finally:
            ahead.close()
            pool.close()
        return problems

    def finish(self, problems: Problems, *, groups: bool) -> Store:
        """Write labels, splits and manifest, and move the whole to its place.

        Args:
            problems: with the data set, which the manifest tells of.
            groups: every class has images in one split only, so no class needs training images.
        """
        labels = np.concatenate([part.labels for part in self.listing.parts.values()]).astype(np.int64)
        lengths = [len(part.labels) for part in self.listing.parts.values()]
        splits = np.repeat(np.arange(len(lengths)), lengths).astype(np.uint8)
        for number, decoded in self.done.items():
            for place in decoded.damaged:
                labels[number * self.chunk_images + int(place)] = -1
        counted = labels[(labels >= 0) & (groups | (splits == list(self.listing.parts).index("train")))]
        kept = np.flatnonzero(np.bincount(counted, minlength=len(self.listing.classes)))
        if len(kept) < 2:
            raise DataError(f"{self.name}: images of {len(kept)} classes are left, at least 2 are needed")
        new_label = np.full(len(self.listing.classes) + 1, -1)
        new_label[kept] = np.arange(len(kept))
        labels = new_label[labels]
        chunks = [self.done[number].sha256 for number in range(len(self.done))]
        names = [self.listing.classes[label] for label in kept]
        manifest = {
            "format": FORMAT,
            "name": self.name,
            "shape": [self.images, self.size, self.size, 3],
            "resize": self.resize,
            "classes": names,
            "splits": {
                split: int(((splits == number) & (labels >= 0)).sum())
                for number, split in enumerate(self.listing.parts)
            },
            "problems": problems,
            "classes_left_out": sorted(set(self.listing.classes) - set(names)),
            "listing": self.listing_digest,
            "digest": content_digest(chunks, labels, splits),
            "chunk_images": self.chunk_images,
            "chunks": chunks,
            "source": str(next(iter(self.listing.parts.values())).place),
            "made_with": {"procrustean": __version__, "pillow": PIL.__version__},
        }
        _write(self.draft / "labels.npy", _as_npy(labels))
        _write(self.draft / "splits.npy", _as_npy(splits))
        _write(self.draft / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        self.draft.rename(self.target)
        for name in ("done.jsonl", "plan.json"):  # which a rename that failed still needs
            (self.target / name).unlink()
        return open_store(self.target)

    def _open_draft(self, say: Say) -> int:
        """Make the draft, or go on with the one that is there; returns where the images begin in their file."""
        plan = {"listing": self.listing_digest}
        if self.draft.exists() and not self._same(plan):
            say(f"{self.draft} is of other images or settings; starting over")
            shutil.rmtree(self.draft)
        if not self.draft.exists():
            self.draft.mkdir(parents=True)
            shape = (self.images, self.size, self.size, 3)
            if not self.images:
                raise DataError(f"{self.name}: no image can be used")
            np.lib.format.open_memmap(self.draft / "images.npy", mode="w+", dtype=np.uint8, shape=shape).flush()
            (self.draft / "plan.json").write_text(json.dumps(plan))
        journal = self.draft / "done.jsonl"
        for line in journal.read_text().splitlines() if journal.exists() else ():
            noted = _noted(line)
            if noted is not None:
                self.done[noted[0]] = noted[1]
        if self.done:
            share = len(self.done) * self.chunk_images / self.images
            say(f"going on after {min(share, 1):.0%}, decoded by an earlier call")
        pixels: npt.NDArray[np.uint8] = np.load(self.draft / "images.npy", mmap_mode="r")
        return int(pixels.offset) if isinstance(pixels, np.memmap) else 0

    def _same(self, plan: dict[str, str]) -> bool:
        try:
            return bool(json.loads((self.draft / "plan.json").read_text()) == plan)
        except (OSError, ValueError):
            return False

    def _length(self, number: int) -> int:
        return min(self.chunk_images, self.images - number * self.chunk_images)

    def _jobs(self, numbers: list[int], offset: int, pool: WorkerPool) -> Iterator[Job[tuple[int, Decoded]]]:
        for number in numbers:
            yield partial(self._decode, number, offset, pool)

    def _decode(self, number: int, offset: int, pool: WorkerPool, slot: int) -> tuple[int, Decoded]:
        start = number * self.chunk_images
        images = [image for part, rows in self._rows(number) for image in part.payload(rows[0], rows[1])]
        place = offset + start * self.size * self.size * 3
        decoded: Decoded = pool.run(Chunk(images, str(self.draft / "images.npy"), place, self.size, self.resize))
        return number, decoded

    def _rows(self, number: int) -> Iterator[tuple[Part, tuple[int, int]]]:
        """The parts that a chunk has images of, and which."""
        start, stop = number * self.chunk_images, number * self.chunk_images + self._length(number)
        before = 0
        for part in self.listing.parts.values():
            first, last = max(start - before, 0), min(stop - before, len(part.labels))
            if first < last:
                yield part, (first, last)
            before += len(part.labels)

    def _name(self, number: int, place: int) -> str:
        names = [part.name(row) for part, rows in self._rows(number) for row in range(*rows)]
        return names[place]


def _noted(line: str) -> tuple[int, Decoded] | None:
    """A line of the journal; None for one that was cut off."""
    try:
        note = json.loads(line)
        number = int(note.pop("chunk"))
        return number, Decoded(**note)
    except (ValueError, KeyError, TypeError):
        return None


def _as_npy(values: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
