"""Put a trained network into a folder that can be handed on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from procrustean.base.errors import ConfigError, RunError
from procrustean.base.files import sync
from procrustean.base.json_files import typed_json
from procrustean.deploy.cautions import cautions
from procrustean.deploy.export_formats import FILES, Format, write
from procrustean.deploy.load_program import load_example
from procrustean.deploy.model_card import model_card
from procrustean.deploy.model_loading import SPEC, ExportedModel, Pixels, load_model, model_folder, why_no_model
from procrustean.engine.class_priors import read_prior
from procrustean.engine.stored_calibration import HELD_OUT_SCORES
from procrustean.records.finding_runs import RESULT_FILE
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.records.several_runs import measured_by, read_comparison
from procrustean.runs.torch_settings import undisturbed


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    files: tuple[str, ...]
    difference: float  # largest difference of a probability between the network and what was written


@undisturbed()
def export(
    model: str | Path,
    *,
    form: Format = "safetensors",
    output: str | Path | None = None,
    prior: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Exported:
    """Write weights, classes, preparation, model card and a program that loads them into a new folder.

    Args:
        model: folder of a run, or of a comparison by `--method auto`.
        form: "safetensors" (loaded by this library), "torch" (torch.export, needs torch alone) or "onnx".
        output: the new folder; default the run's name with the format behind it.
        prior: class frequencies of the use, built into the exported network: "balanced", "train" or a file.
        say: told what is worth knowing about the probabilities.
    """
    if form not in FILES:
        raise ConfigError(f"form = {form!r} received; accepted: {', '.join(map(repr, FILES))}")
    source = model_folder(model)
    if not (source / RESULT_FILE).is_file():
        raise RunError(
            f"{source} is not the folder of a finished run, so it cannot be exported: {why_no_model(source)}"
        )
    folder = Path(output) if output is not None else Path(f"{Path(model).resolve().name}-{form}")
    loaded = load_model(source, device="cpu")
    frequencies = read_prior(prior, loaded.classes, loaded.spec.calibration.counts)
    for warning in cautions(loaded.spec.calibration, loaded.classes, frequencies):
        say(warning)
    with new_folder(folder) as draft:
        difference = write(form, loaded, frequencies, draft)
        given = Path(model)
        record, whose = load_result(source).record, measured_by(given)
        card = model_card(
            loaded.spec,
            record,
            tested=load_result(given).record if whose else record,
            whose=whose,
            form=form,
            prior=prior,
            frequencies=frequencies,
            difference=difference,
            why=RunFolder(source).beginning().why,
            comparison=read_comparison(given),
        )
        used = loaded.spec.calibration.frequencies(frequencies)
        exported = ExportedModel(
            classes=list(loaded.classes),
            input=Pixels(shape=["N", *loaded.spec.input_shape]),
            prior=None if frequencies is None else dict(zip(loaded.classes, frequencies.tolist(), strict=True)),
            frequencies=dict(zip(loaded.classes, used.tolist(), strict=True)),
            spec=loaded.spec,
        )
        (draft / SPEC).write_bytes(typed_json(exported))
        (draft / "README.md").write_text(card, encoding="utf-8")
        (draft / "load.py").write_text(load_example(form, loaded.spec), encoding="utf-8")
        if (source / HELD_OUT_SCORES).is_file():
            shutil.copyfile(source / HELD_OUT_SCORES, draft / HELD_OUT_SCORES)
    return Exported(folder, tuple(sorted(path.name for path in folder.iterdir())), difference)


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """A folder to write into; it becomes `place` at the end, and nothing does after an error or a kill.

    Args:
        place: where nothing may be, or an empty folder.
    """
    target = place.resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"{place} exists and is not an empty folder; choose another --output")
    if target == Path.cwd():
        raise RunError(f"{place} is the current folder, which cannot be replaced; name a new folder by --output")
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        draft.mkdir(parents=True)
        yield draft
        for path in (*draft.iterdir(), draft):
            sync(path)
        draft.rename(target)
    except OSError as error:
        raise RunError(
            f"cannot write {place} ({error.strerror or error}); nothing is left there. Make room, or choose another "
            "--output"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
