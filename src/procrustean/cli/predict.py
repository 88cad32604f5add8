"""procrustean predict and procrustean export"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from procrustean.cli.outputs import check_output, write_table


@dataclass(frozen=True)
class Predict:
    """Classify images with a trained network; writes a CSV file.

    Example: procrustean predict runs/cells new_images --output predictions.csv
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of a run, of a comparison by --method auto, or of an export."""
    paths: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PATH [PATH ...]")]
    """Images, and folders with images at any depth."""
    method: str | None = None
    """The file of its method, if it is one of your own: FILE.py. It has to be what it was."""
    net: str | None = None
    """The file of its network, likewise."""
    output: Path | None = None
    """CSV file to write; default the terminal."""
    prior: str | None = None
    """Class frequencies where the images come from: balanced, train, or a .json or .csv file with a number per class;
    by default the classes stay as the network ranks them, and the probabilities are for the frequencies that its scores
    stand for (those built into an export, else between those of training and equal ones; export's model card names
    them)."""
    thresholds: Path | None = None
    """File that the command thresholds wrote; it is refused if it was made with another --prior. A column announced
    then names the classes whose probability reaches their number: several of them, or none."""
    top: int = 3
    """How many classes to name for each image."""
    batch_size: int = 256
    """Images at a time."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    def run(self) -> int:
        from procrustean.base.console import ResultStream, notify
        from procrustean.cli.given_runs import check_own_names, use_own_files
        from procrustean.data.image_lists import NAMED
        from procrustean.deploy.model_loading import load_model, model_folder
        from procrustean.deploy.prediction import predict, write_predictions

        if self.output is not None:
            given = [str(path) for path in (self.prior, self.thresholds) if path]
            check_output(self.output, (*self.paths, *given))
        use_own_files(self.method, self.net)
        folder = model_folder(self.model)
        check_own_names(folder, self.method, self.net)
        if folder != self.model:
            notify(f"using {folder}")
        model = load_model(folder, device=self.device)
        top = min(self.top, len(model.classes))
        rows = predict(
            model,
            self.paths,
            prior=self.prior,
            thresholds=self.thresholds,
            top=self.top,
            batch_size=self.batch_size,
            say=notify,
        )
        announce = self.thresholds is not None
        if self.output is None:
            images, unread = write_predictions(rows, results := ResultStream(), top, announce=announce)
            results.flush()
        else:
            table = io.StringIO()
            images, unread = write_predictions(rows, table, top, announce=announce)
            write_table(self.output, table.getvalue(), self.paths)
            notify(f"{images - len(unread)} of {images} images classified, written to {self.output}")
        for name in unread[:NAMED]:
            notify(f"{name} could not be read; see the column problem")
        if len(unread) > NAMED:
            written = "the table above" if self.output is None else self.output
            rest = len(unread) - NAMED
            notify(f"and {rest} more; all of them stand in {written}, with the reason in the column problem")
        return 1 if unread else 0


@dataclass(frozen=True)
class Export:
    """Put a trained network into a folder: weights, model card, loader.

    The folder also holds the class names and the preparation of images; `load.py` loads and runs the network.

    Example: procrustean export runs/cells --format onnx --output cells-onnx
    """

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of a run, or of a comparison by --method auto."""
    format: Literal["safetensors", "torch", "onnx"] = "safetensors"
    """safetensors for this library, torch for a program that needs torch alone, onnx for one that needs onnxruntime."""
    method: str | None = None
    """The file of its method, if it is one of your own: FILE.py. It has to be what it was."""
    net: str | None = None
    """The file of its network, likewise."""
    output: Path | None = None
    """New folder; default the run's name with the format behind it."""
    prior: str | None = None
    """Class frequencies where it will be used, built in: balanced, train, or a .json or .csv file."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.progress import make_reporter
        from procrustean.cli.given_runs import check_own_names, use_own_files
        from procrustean.cli.outputs import refuse_inside
        from procrustean.deploy.export_folder import export
        from procrustean.records.several_runs import chosen_run

        use_own_files(self.method, self.net)
        reporter = make_reporter(quiet=self.quiet)
        run = chosen_run(self.model)
        check_own_names(run, self.method, self.net)
        refuse_inside(run, self.output or Path())
        if run != self.model:
            reporter.say(f"using {run}")
        done = export(self.model, form=self.format, output=self.output, prior=self.prior, say=reporter.say)
        checked = f"checked: probabilities differ from the run's by at most {done.difference:.1e}"
        write_result(f"{done.folder}: {', '.join(done.files)}\n{checked}")
        return 0
