"""Ways to damage a file, drawn by hypothesis."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import strategies as st

#: What numbers in headers are most likely to be misread as.
EXTREMES = [b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80", b"\xff" * 8, b"\xff" * 7 + b"\x7f"]

places = st.floats(0, 1, exclude_max=True)
edits = st.one_of(
    st.tuples(st.just("flip"), places, st.integers(0, 7)),
    st.tuples(st.just("put"), places, st.one_of(st.sampled_from(EXTREMES), st.binary(min_size=1, max_size=8))),
    st.tuples(st.just("insert"), places, st.binary(min_size=1, max_size=64)),
    st.tuples(st.just("delete"), places, st.integers(1, 64)),
    st.tuples(st.just("cut"), places, st.none()),
    st.tuples(st.just("repeat"), places, st.integers(1, 256)),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
#: Edits of the bytes, and a change of the n-th value of a text.
damages = st.tuples(st.lists(edits, min_size=1, max_size=6), st.tuples(places, values))


def damaged(content: bytes, changes: list[tuple[str, float, Any]]) -> bytes:
    """The content after some edits."""
    data = bytearray(content)
    for kind, place, what in changes:
        at = int(place * len(data))
        if kind == "flip" and data:
            data[at] ^= 1 << what
        elif kind == "put":
            data[at : at + len(what)] = what
        elif kind == "insert":
            data[at:at] = what
        elif kind == "delete":
            del data[at : at + what]
        elif kind == "cut":
            del data[at:]
        elif kind == "repeat":
            data[at:at] = data[at : at + what]
    return bytes(data)


def with_other_value(content: bytes, name: str, place: float, value: Any) -> bytes:
    """A JSON or YAML text in which one value, anywhere inside, is another one."""
    if name.endswith(".jsonl"):
        lines = content.splitlines(keepends=True)
        at = int(place * len(lines))
        return b"".join([*lines[:at], with_other_value(lines[at], ".json", place, value) + b"\n", *lines[at + 1 :]])
    tree = {"top": yaml.safe_load(content) if name.endswith(".yaml") else json.loads(content)}
    spots: list[tuple[Any, Any]] = []
    _collect(tree, spots)
    holder, key = spots[int(place * len(spots))]
    holder[key] = value
    if name.endswith(".yaml"):
        return yaml.safe_dump(tree["top"]).encode()
    return json.dumps(tree["top"]).encode()


def _collect(node: Any, spots: list[tuple[Any, Any]]) -> None:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        spots.append((node, key))
        if isinstance(node[key], dict | list):
            _collect(node[key], spots)
