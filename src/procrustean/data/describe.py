"""A data set in words: counts, ratio, groups, and a bar per class."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from procrustean.balance.count_facts import geometric_mean, imbalance_kind
from procrustean.balance.metrics import class_groups
from procrustean.data.imageset import Splits
from procrustean.data.imageset import some_names as some_names
from procrustean.data.imbalance import Imbalanced

_BAR = 40
_MOST_BARS = 40


def describe(splits: Splits, data: Imbalanced) -> str:
    """Several lines of text for the terminal."""
    counts = [int(n) for n in data.counts]
    height, width, channels = data.train.images.shape[1:]
    kind = imbalance_kind(counts)
    setting = data.kind if data.kind == "natural" else f"{data.kind}, rho {data.rho:g}"
    groups = {name: int(members.sum()) for name, members in class_groups(counts).items() if members.any()}
    lines = [
        f"{splits.name} ({setting}): {len(counts)} classes of {width} x {height} images, {channels} channel(s)",
        f"training {sum(counts)}, test {len(data.test)}, held out {0 if data.held_out is None else len(data.held_out)}",
        f"largest {max(counts)}, smallest {min(counts)}, ratio {max(counts) / min(counts):.4g}, "
        f"geometric mean {geometric_mean(counts):.4g}; MFW takes it as {kind.replace('_', '-')}",
        "classes: " + ", ".join(f"{count} {name}" for name, count in groups.items()),
        f"split {data.split_hash[:16]}, source {data.source_hash[:16]}",
    ]
    if splits.note:
        lines.append(splits.note)
    if data.left_out_classes:
        lines.append("too few images to hold any out: " + some_names(data.left_out_classes))
    return "\n".join([*lines, "", *_bars(data.train.classes, counts)])


def _bars(names: tuple[str, ...], counts: list[int]) -> list[str]:
    shown = list(range(len(counts)))
    if len(counts) > _MOST_BARS:
        shown = [round(i * (len(counts) - 1) / (_MOST_BARS - 1)) for i in range(_MOST_BARS)]
    name_width = min(24, max(cell_len(printable(names[i])) for i in shown))
    count_width = len(str(max(counts)))
    lines = [
        f"{i:4} {set_cell_size(printable(names[i]), name_width)} {counts[i]:{count_width}} "
        + "█" * max(1, round(_BAR * counts[i] / max(counts)))
        for i in shown
    ]
    if len(shown) < len(counts):
        lines.append(f"({len(shown)} of {len(counts)} classes shown)")
    return lines


def printable(name: str) -> str:
    # Class names are folder names of strangers: a control character must not reach the terminal.
    return "".join(c if c.isprintable() else "?" for c in name)
