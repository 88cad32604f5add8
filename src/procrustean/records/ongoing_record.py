"""A run that still goes on, read from the files it has written so far, in the form of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from procrustean.base.code_files import plain_name
from procrustean.base.errors import RunError
from procrustean.base.json_files import parse_json
from procrustean.data.sources import TABLES
from procrustean.methods.labels import shown_label
from procrustean.records.class_sizes import recall_by_size
from procrustean.records.epoch_curves import probes_of, training_curves
from procrustean.records.finding_runs import CONFIG_FILE, no_run_at
from procrustean.records.run_record import KNOWN_FORMATS, UNFINISHED, Result, check_record

EPOCHS_FILE = "epochs.jsonl"


@dataclass(frozen=True)
class Ongoing:
    """How far a run is, and its result so far: None before the first test."""

    label: str
    path: Path
    epochs_done: int
    epochs: int
    result: Result | None


def load_ongoing(directory: Path) -> Ongoing:
    """What the files of an unfinished run say.

    Such a run is no repeat of any other: it stands for itself under a label with its seed.

    Raises:
        RunError: when the folder holds no run or its files are damaged.
    """
    file = directory / CONFIG_FILE
    begun = _parsed(file, _content(file))
    if not isinstance(begun, dict) or not {"config", "identity", "format"} <= set(begun):
        raise RunError(f"{file} is not the configuration of a run: it lacks format, config or identity.")
    if begun["format"] not in KNOWN_FORMATS:
        raise RunError(f"{file} has format {begun['format']!r}; this version of procrustean does not read it.")
    try:
        source = _source_name(str(begun["config"]["source"]), begun.get("source_path"))
        return _ongoing(directory, begun["config"], begun["identity"], source)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise RunError(
            f"{directory} is damaged ({type(error).__name__}: {error}). Start the run again in a new folder."
        ) from error


def _source_name(source: str, place: str | None) -> str:
    """What the data set will be called when the run ends, by which it is found beside finished runs on the same data.

    Args:
        source: as the user has named it.
        place: where the files of a user's own were found.
    """
    named, found = Path(source), Path(place or source)
    if named.suffix.lower() in (".npz", *TABLES) and not found.is_dir():
        return named.stem
    return found.name or source


def _ongoing(directory: Path, config: Mapping[str, Any], identity: Mapping[str, Any], source: str) -> Ongoing:
    records = _epochs(directory / EPOCHS_FILE)
    label = f"{shown_label(str(identity['method']))} (seed {config['seed']}, unfinished)"
    result = None
    if any("test" in record for record in records):
        record = _record(label, config, identity, records, source)
        check_record(record, str(directory), unfinished=True)
        result = Result(record, directory / CONFIG_FILE)
    return Ongoing(
        label=label,
        path=directory,
        epochs_done=len(records),
        epochs=int(identity["recipe"]["epochs"]),
        result=result,
    )


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise no_run_at(file.parent) from None
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}.") from error


def _parsed(file: Path, content: bytes) -> Any:
    try:
        return parse_json(content)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{file} is damaged ({error}). Start the run again in a new folder.") from error


def _epochs(file: Path) -> list[dict[str, Any]]:
    """The epochs so far; a last line that is just being written does not count."""
    if not file.exists():
        return []
    return [_parsed(file, line) for line in _content(file).split(b"\n")[:-1]]


def _record(
    label: str,
    config: Mapping[str, Any],
    identity: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    source: str,
) -> dict[str, Any]:
    counts = [int(count) for count in identity["counts"]]
    evaluated = [record for record in records if "test" in record]
    return {
        "format": KNOWN_FORMATS[-1],
        "label": label,
        "status": UNFINISHED,
        "config": dict(config),
        "recipe": {"name": config.get("recipe"), **identity["recipe"]},
        "data": {
            "source": source,
            "classes": list(identity["classes"]),
            "counts": counts,
            "kind": config.get("imbalance"),
            "rho": config.get("rho") or max(counts) / min(counts),
            "split_hash": identity.get("split_hash"),
            "source_hash": None,  # known when the run ends
        },
        "method": {"name": plain_name(str(config.get("method"))), "options": config.get("options") or {}},
        "selections": _selections(evaluated, counts),
        "curves": training_curves(records),
        "probes": probes_of(records),
        "environment": {"precision": identity.get("precision")},
    }


def _selections(evaluated: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> dict[str, Any]:
    """The three selections among the epochs of the present stage, by the rules of a finished run."""
    present = [record for record in evaluated if record.get("stage") == evaluated[-1].get("stage")]

    def selection(record: Mapping[str, Any]) -> dict[str, Any]:
        test = record["test"]
        return {"epoch": record["epoch"], "metrics": {**test, "groups": recall_by_size(test["recall"], counts)}}

    chosen = None
    if all("held_out" in record for record in present):
        chosen = selection(max(reversed(present), key=lambda record: record["held_out"]["balanced_accuracy"]))
    best = max(present, key=lambda record: record["test"][record["test"]["headline"]])
    return {"last": selection(present[-1]), "held_out": chosen, "oracle": selection(best)}
