"""Find a layer by name, or explain which names there are; suggest layers to mix at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from torch import nn

from procrustean.balance.layer_trace import ForwardTrace
from procrustean.base.errors import LayerError, did_you_mean, suggestion


def published_layers(model: nn.Module) -> dict[str, str]:
    """Short names a network publishes for its mixable layers ("group2") and the modules they stand for."""
    return dict(getattr(model, "mixable", {}))


def layer_names(model: nn.Module) -> list[str]:
    """Every name `find_layer` accepts: the published short names first, then all module paths."""
    return [*published_layers(model), *(name for name, _ in model.named_modules() if name)]


def find_layer(model: nn.Module, name: str) -> nn.Module:
    """The module called `name`: a published short name or a dotted module path.

    >>> find_layer(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "1")
    ReLU()
    """
    path = published_layers(model).get(name, name)
    modules: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))  # shared ones by all their names
    if not path or path not in modules:
        names = layer_names(model)
        inside = [other for other in names if name and other.endswith(f".{name}")]  # of a wrapped model
        shown = f"It has {', '.join(map(repr, inside[:3]))}." if inside else did_you_mean(name, names)
        if len(names) <= 12 and not inside:
            shown = f"{suggestion(name, names)} Its layers: {', '.join(names)}.".strip()
        raise LayerError(
            f"{type(model).__name__} has no layer {name!r}. {shown} "
            "procrustean.balance.suggest(model, example) says which of them to mix at"
        )
    return modules[path]


@dataclass(frozen=True)
class Candidate:
    """A layer whose output can be mixed."""

    name: str
    kind: str  # class of the module
    shape: tuple[int, ...]  # of its output, the batch first


@dataclass(frozen=True)
class Suggestion:
    """Layers of a model to mix at, from input to output, and the one that stands for the paper's second group."""

    candidates: tuple[Candidate, ...]
    second_group: str
    reason: str  # why that one
    groups: Mapping[str, str]  # "group1", "group2", ... and the layers they end with; no first where nothing precedes

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __str__(self) -> str:
        rows = [(c.name, " x ".join(map(str, c.shape[1:])), c.kind) for c in self.candidates]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        ends = {path: group for group, path in self.groups.items()}
        lines = []
        for row in rows:
            # A network that publishes its groups has them as names of its layers.
            marks = [ends[row[0]]] if row[0] in ends else []
            marks += ["second group"] if row[0] == self.second_group else []
            cells = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            lines.append(f"{cells}   <- {', '.join(marks)}" if marks else cells.rstrip())
        lines += ["", f"Second group: {self.second_group} ({self.reason})."]
        return "\n".join(lines)


def suggest(model: nn.Module, example: Any, *, every: bool = False) -> Suggestion:
    """The layers of a model that MFW can be attached to, with the shapes of their outputs.

    The paper calls the layers before the first residual blocks the first group, and the first stage of residual blocks
    the second; it mixes after the second. Other architectures are read the same way: what precedes the first blocks is
    the first group, the blocks after it up to the first change of the feature map are the second, those up to the next
    change the third, and so on. Plain stacks have no blocks, and no stem that stands out: the layers up to the first
    change of the feature map are the first group, those from there to the next change the second. Transformers have
    blocks without stages: of those, the first third stands for the second group, which ends after a third of the layers
    of the paper's ResNet-32, and the other thirds for the next two. Blocks are units with several layers, and units of
    one class that most of the network is a row of. Networks of timm and torchvision that are trained by name have their
    groups from here.

    Args:
        model: any module; it is run once, in evaluation mode and without gradients, and stays as it was.
        example: what it is called with: a tensor, a tuple of arguments, or a mapping of keyword arguments; one or two
            samples are enough.
        every: list every layer that can be mixed at, not the main ones alone.
    """
    trace = ForwardTrace(model, example)
    published = published_layers(model)
    if published:
        kept = {path: name for name, path in published.items() if path in trace.outputs}
        second, reason = str(getattr(model, "second_group", "")), "published by the network"
        trunk = list(kept)
        groups = dict(published)
        if second not in kept.values():
            groups, reason = _groups(trace, trunk)
            second = kept[groups["group2"]]
    else:
        kept = {}
        trunk = _trunk(trace, "")
        if not trunk:
            raise LayerError(
                f"{type(model).__name__} has no layer that is called once and returns one floating-point tensor, alone "
                "or first in a tuple, with the batch as its first dimension (those of sequences need "
                "batch_first=True); call mfw(z, labels) in its forward pass instead"
            )
        groups, reason = _groups(trace, trunk)
        second = groups["group2"]
        around = trace.unmixable_around(second)
        reason += f"; {around} around it returns nothing that can be mixed" if around else ""
    paths = trace.outputs if every else trunk
    candidates = [Candidate(kept.get(path, path), *trace.outputs[path]) for path in paths]
    return Suggestion(tuple(candidates), second, reason, groups)


def _trunk(trace: ForwardTrace, path: str) -> list[str]:
    """The main layers below `path`: stages or blocks, with what comes before the first of them."""
    found = []
    for child in trace.children(path):
        opened = _trunk(trace, child) if child not in trace.outputs or _holds_the_trunk(trace, child) else []
        found += opened or ([child] if child in trace.outputs else [])
    return found


def _holds_the_trunk(trace: ForwardTrace, path: str) -> bool:
    """Whether a part is itself the backbone, not a stage of it: most layers are in it, or maps that shrink twice."""
    sides: list[int] = []
    for name in trace.inside(path):
        shape = trace.outputs[name][1]
        if len(shape) == 4 and shape[2] == shape[3] and 1 < shape[2] < min(sides, default=shape[2] + 1):
            sides.append(shape[2])
    return trace.weighted(path) >= 0.8 * trace.weighted("") or len(sides) > 2


def _groups(trace: ForwardTrace, trunk: list[str]) -> tuple[dict[str, str], str]:
    """The layers of the trunk after which the groups end, and the rule that says so of the second."""
    repeated = _repeated(trace, trunk)
    blocks = [path for path in trunk if trace.is_block(path) or path in repeated]
    if not blocks:
        return _plain_groups(trace, trunk)
    stages = [list(run) for _, run in groupby(blocks, key=lambda path: trace.outputs[path][1])]
    ends, reason = [stage[-1] for stage in stages], "the end of the first stage of blocks"
    if len(stages[0]) > max(2, len(blocks) // 2):
        row = stages[0]
        ends[:1] = [row[-(-third * len(row) // 3) - 1] for third in (1, 2, 3)]
        reason = "blocks without stages: the end of their first third"
    return _named(trunk[: trunk.index(blocks[0])][-1:], ends), reason


def _repeated(trace: ForwardTrace, trunk: list[str]) -> set[str]:
    """The ends of units of one class, repeated, that most of the trunk consists of: blocks that do not look like any.

    Some return what cannot be mixed, so that a layer inside has to stand for them. Others are residual layers of a
    single matrix; where the feature map changes along them, they might as well be the layers of a plain stack.
    """
    ends = {trace.unit(path): path for path in trunk if trace.weighted(path)}
    rows: dict[type[nn.Module], dict[str, str]] = {}
    for unit, end in ends.items():
        if trace.is_repeated(unit):
            rows.setdefault(type(trace.modules[unit]), {})[unit] = end
    row = max(rows.values(), key=len, default={})
    maps = {trace.outputs[end][1] for end in row.values()}
    long = len(row) > max(2, len(ends) // 2)
    return set(row.values()) if long and (len(maps) == 1 or min(map(trace.weighted, row)) > 1) else set()


def _plain_groups(trace: ForwardTrace, trunk: list[str]) -> tuple[dict[str, str], str]:
    learnt = [path for path in trunk if trace.weighted(path)]
    shapes = {path: trace.outputs[path][1] for path in trunk}
    if len(shapes[trunk[0]]) == 2:
        runs = [[path] for path in learnt[:-1]]  # of a network of vectors, the last layer makes the scores
    else:
        runs = [list(run) for _, run in groupby(learnt, key=shapes.__getitem__)]
    if not runs:
        return _named([], trunk[:1]), "no layers to group: the first one"
    ends = []
    for run in runs:
        last = run[-1]
        # Up to the next layer with weights: the normalisation and activation that follow belong to the group.
        for path in trunk[trunk.index(last) + 1 :]:
            if trace.weighted(path) or shapes[path] != shapes[last]:
                break
            last = path
        ends.append(last)
    if len(ends) == 1:
        return _named([], ends), "the only group"
    return _named(ends[:1], ends[1:]), "no blocks: the end of the second group of plain layers"


def _named(first: list[str], later: list[str]) -> dict[str, str]:
    return {f"group{number}": path for number, path in enumerate([*first, *later], 2 - len(first))}
