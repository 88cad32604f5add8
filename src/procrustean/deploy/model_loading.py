"""Load a model from the folder of a run, of a comparison of methods, or of an export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from procrustean.balance.count_facts import kind_for_methods
from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.base.errors import ProcrusteanError, RunError
from procrustean.base.json_files import read_object
from procrustean.data.recipes import data_set
from procrustean.deploy.model import Model, ModelSpec, method_of
from procrustean.engine.class_priors import prior_of
from procrustean.engine.prepared import (
    known_source,
)
from procrustean.engine.probabilities import Calibration, Labels, Prior, Scores, uncalibrated
from procrustean.engine.stored_calibration import held_out_scores
from procrustean.records.auto_choice import chosen_run
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE, no_run_at, resume_command
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result

#: Of an export: what `ModelSpec` holds and what it is a model of.
SPEC, WEIGHTS = "model.json", "model.safetensors"


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
    kept = folder / SPEC
    try:
        if kept.is_file():
            return ModelSpec.from_json(_read(kept)["spec"])
        kept = folder / RESULT_FILE
        return _spec_of_run(folder)
    except ProcrusteanError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise RunError(f"{kept} is damaged ({type(error).__name__}: {error})") from error


def _spec_of_run(folder: Path) -> ModelSpec:
    _, config, identity = RunFolder.open(folder)
    result = load_result(folder).record
    recipe, data = result["recipe"], result["data"]
    counts = [int(n) for n in data["counts"]]
    spec = ModelSpec(
        label=result["label"],
        net=recipe["net"],
        # A network that any method may have trained is described without the file of a method of the user's.
        method="erm" if identity.get("plain_network") else config.method,
        options={} if identity.get("plain_network") else result["method"]["options"],
        seed=config.seed,
        classes=tuple(data["classes"]),
        image_shape=tuple(data["image_shape"]),
        crop=recipe.get("crop"),
        evaluation_crop=recipe.get("evaluation_crop"),
        mean=tuple(recipe["mean"]),
        std=tuple(recipe["std"]),
        kind=kind_for_methods(data["kind"], counts),
        calibration=uncalibrated(counts),
        source=data_set(known_source(data["source"], config)),
    )
    return replace(spec, calibration=_calibration(result, spec)).checked()


def held_out_of(path: str | Path) -> tuple[Scores, Labels]:
    """Scores and labels of the held-out images of a model."""
    folder = model_folder(path)
    scores, labels = held_out_scores(RunFolder(folder))
    return scores, labels


def built_in_prior(folder: Path) -> Prior | None:
    """The class frequencies that an export was made for, if any."""
    kept = _read(folder / SPEC).get("prior") if (folder / SPEC).is_file() else None
    if kept is None:
        return None
    if not isinstance(kept, dict) or not all(isinstance(share, int | float) for share in kept.values()):
        raise RunError(f"{folder / SPEC} is damaged: prior = {kept!r:.80}; export the model again")
    return prior_of(kept, spec_of(folder).classes, origin=str(folder / SPEC))


def _calibration(result: dict[str, Any], spec: ModelSpec) -> Calibration:
    kept = result.get("calibration")
    if kept is not None:
        return Calibration.from_json(kept)
    counts = spec.calibration.counts
    if (scores := result["method"].get("scores")) is not None:  # of a method in a file, which `spec` may not name
        return uncalibrated(counts, corrected=bool(scores["corrected"]), scale=float(scores["scale"]))
    objective = method_of(spec).stages[-1].objective
    return uncalibrated(counts, corrected=shifts_scores(objective), scale=scale_of_scores(objective))


def _read(path: Path) -> dict[str, Any]:
    return read_object(path, "export the model again")
