"""Result files read back and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from procrustean.base.console import command_text
from procrustean.base.errors import RunError
from procrustean.base.json_files import parse_json
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE, no_run_at
from procrustean.records.record_types import check_types

KNOWN_FORMATS = (1,)

Selection = Literal["last", "held_out", "oracle"]


@dataclass(frozen=True)
class Result:
    """One run: the content of its result.json and where it came from (None when never saved)."""

    record: dict[str, Any] = field(repr=False)
    path: Path | None = None

    @property
    def label(self) -> str:
        return str(self.record["label"])

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.record["config"]
        return config

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.record["data"]
        return data

    @property
    def repeat(self) -> tuple[Any, Any]:
        """(seed, data_seed): what numbers the repeats of one setting."""
        return self.config.get("seed"), self.config.get("data_seed")

    def metrics(self, selection: Selection) -> dict[str, Any] | None:
        """The metrics of one selection, None when the run does not have it."""
        chosen = self.record["selections"].get(selection)
        return None if chosen is None else chosen["metrics"]


def load_result(path: str | Path) -> Result:
    """The result of a finished run, from its directory or from a result.json.

    Raises:
        RunError: when it is missing, unfinished, broken or written in a format this version does not know.
    """
    path = Path(path)
    file = path / RESULT_FILE if path.is_dir() else path
    if not file.exists():
        if not (path / CONFIG_FILE).exists():
            raise no_run_at(path)
        raise RunError(
            f"{path} holds no {RESULT_FILE}: the run is not finished. Go on with: {command_text('resume', path)}"
        )
    try:
        record = parse_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{file} is not valid JSON ({error}). Restore it, or run the training again.") from error
    check_record(record, str(file))
    return Result(record=record, path=file.resolve())


def check_record(record: Any, place: str) -> None:
    """Refuse a record that lacks what every result has.

    Args:
        record: the content of a result.json.
        place: where it came from, for the message.
    """
    if not isinstance(record, dict) or "format" not in record:
        raise RunError(f"{place} is not a result of procrustean: it has no format number.")
    if record["format"] not in KNOWN_FORMATS:
        known = ", ".join(str(number) for number in KNOWN_FORMATS)
        raise RunError(
            f"{place} has format {record['format']!r}; this version reads format {known}. "
            "Use the version of procrustean that wrote it, or a newer one."
        )
    if "status" not in record:  # that of a run is never without
        raise RunError(f"{place} is incomplete: it lacks 'status'. Restore it, or run the training again.")
    if record["status"] != "complete":
        raise RunError(
            f"{place} is of a run that is not complete (status {record['status']!r}). "
            "Finish it with: procrustean resume RUN"
        )
    needed = {
        "": ("label", "config", "recipe", "data", "method", "selections", "curves"),
        "data": ("source", "classes", "counts"),
        "recipe": ("epochs",),
        "selections": ("last",),
    }
    for part, names in needed.items():
        inside = record[part] if part else record
        missing = [name for name in names if not isinstance(inside, dict) or inside.get(name) is None]
        if missing:
            where = f" in its {part!r}" if part else ""
            raise RunError(f"{place} is incomplete: it lacks {', '.join(map(repr, missing))}{where}.")
    for name, selection in record["selections"].items():
        metrics = selection.get("metrics") if isinstance(selection, dict) else None
        if selection is not None and not (
            isinstance(metrics, dict)
            and {"headline", "accuracy", "balanced_accuracy", "groups", "recall"} <= set(metrics)
        ):
            raise RunError(f"{place} is incomplete: its selection {name!r} has no metrics.")
    check_types(record, place)


def place_of(result: Result) -> str:
    """Where a result came from, for messages."""
    return str(result.path) if result.path is not None else f"an unsaved run of {result.label}"
