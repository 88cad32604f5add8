"""Load a model from the folder of a run, of a comparison of methods, or of an export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec import Struct

from procrustean.balance.count_facts import kind_for_methods
from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.base.errors import ProcrusteanError, RunError
from procrustean.base.json_files import FORMAT, read_typed
from procrustean.data.recipes import data_set
from procrustean.deploy.model import Model, ModelSpec, method_of
from procrustean.engine.class_priors import prior_of
from procrustean.engine.prepared_run import (
    known_source,
)
from procrustean.engine.probabilities import Calibration, Labels, Prior, Scores, uncalibrated
from procrustean.engine.stored_calibration import held_out_scores
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE, no_run_at, resume_command
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import RunRecord, load_result
from procrustean.records.several_runs import chosen_run

#: Of an export: what the model is, and its weights.
SPEC, WEIGHTS = "model.json", "model.safetensors"


class Pixels(Struct, frozen=True, kw_only=True):
    """What an exported network takes."""

    name: str = "pixels"
    dtype: str = "uint8"
    shape: list[int | str]


class ExportedModel(Struct, frozen=True, kw_only=True):
    """The content of model.json."""

    format: Literal[1] = FORMAT
    classes: list[str]
    input: Pixels
    prior: dict[str, float] | None  # class frequencies that are built in
    frequencies: dict[
        str, float
    ]  # what the probabilities are for, built in or not; load.py holds thresholds against it
    spec: ModelSpec


def load_model(path: str | Path, *, device: str = "auto") -> Model:
    """A trained network from a run's folder or an export in safetensors; its training images are not needed.

    Args:
        path: folder of a run, of a comparison by `--method auto`, or of an export.
        device: "auto", "cpu" or "cuda".
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from procrustean.engine.device import place

    folder = model_folder(path)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise RunError(f"{folder} has no {WEIGHTS}: {why_no_model(folder)}")
    spec = spec_of(folder)
    try:
        return Model(spec, load_file(weights), place(device, "fp32").device, built_in_prior(folder))
    except ProcrusteanError:
        raise
    except (SafetensorError, RuntimeError) as error:
        raise RunError(f"{weights} is damaged or of another network ({error})") from error


def why_no_model(folder: Path) -> str:
    """What a folder is that is no run with its weights, in words, and what to do."""
    if needs_load_program(folder):
        return f"it is an export for {folder}/load.py"
    if (folder / CONFIG_FILE).is_file() and not (folder / RESULT_FILE).is_file():
        return f"the run is not finished; go on with: {resume_command(folder)}"
    if runs := sorted(path.parent for path in folder.glob(f"*/{RESULT_FILE}")):
        return f"it holds {len(runs)} run{'s' * (len(runs) > 1)}; name one of them, such as {runs[0]}"
    return "it is not the folder of a finished run with its weights, of a comparison of methods, or of an export"


def needs_load_program(folder: Path) -> bool:
    """Whether a folder is an export that this library cannot run, only the load.py in it."""
    return (folder / SPEC).is_file() and not (folder / WEIGHTS).is_file()


def model_folder(path: str | Path) -> Path:
    """The folder that holds the model: the best run for a comparison, else the folder itself."""
    folder = Path(path)
    if not folder.is_dir():
        raise no_run_at(folder, "run or export")
    return chosen_run(folder)


def spec_of(folder: Path) -> ModelSpec:
    """What the model of a run or an export is."""
    exported = _exported(folder)
    return _spec_of_run(folder) if exported is None else exported.spec


def _spec_of_run(folder: Path) -> ModelSpec:
    _, config, identity = RunFolder.open(folder)
    record = load_result(folder).record
    recipe, data, counts = record.recipe, record.data, record.data.counts
    mean, std = recipe.normalisation
    try:
        spec = ModelSpec(
            label=record.label,
            net=recipe.net,
            # A network that any method may have trained is described without the file of a method of the user's.
            method="erm" if identity.plain_network else config.method,
            options={} if identity.plain_network else record.method.options,
            seed=config.seed,
            classes=tuple(data.classes),
            image_shape=data.image_shape,
            crop=recipe.crop,
            evaluation_crop=recipe.evaluation_crop,
            mean=mean,
            std=std,
            kind=kind_for_methods(data.kind, counts),
            calibration=uncalibrated(counts),
            source=data_set(known_source(data.source, config)),
            tune=config.tune,
        )
    except ValueError as error:
        raise RunError(f"{folder / RESULT_FILE} is damaged ({error}); restore it, or run the training again") from error
    return replace(spec, calibration=_calibration(record, spec))


def held_out_of(path: str | Path) -> tuple[Scores, Labels]:
    """Scores and labels of the held-out images of a model."""
    folder = model_folder(path)
    scores, labels = held_out_scores(RunFolder(folder))
    return scores, labels


def built_in_prior(folder: Path) -> Prior | None:
    """The class frequencies that an export was made for, if any."""
    exported = _exported(folder)
    if exported is None or exported.prior is None:
        return None
    return prior_of(exported.prior, exported.spec.classes, origin=str(folder / SPEC))


def _calibration(record: RunRecord, spec: ModelSpec) -> Calibration:
    if record.calibration is not None:
        return Calibration.of(record.calibration)
    counts = spec.calibration.counts
    if (scores := record.method.scores) is not None:  # of a method in a file, which `spec` may not name
        return uncalibrated(counts, corrected=scores.corrected, scale=scores.scale)
    objective = method_of(spec).stages[-1].objective
    return uncalibrated(counts, corrected=shifts_scores(objective), scale=scale_of_scores(objective))


def _exported(folder: Path) -> ExportedModel | None:
    """What an export says that it is; None for another folder."""
    file = folder / SPEC
    return read_typed(file, ExportedModel, "export the model again") if file.is_file() else None
