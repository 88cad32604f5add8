"""procrustean predict, procrustean thresholds and procrustean export"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from procrustean.base.console import ResultStream, command_text, notify, write_result
from procrustean.base.progress import make_reporter
from procrustean.base.table_formats import to_csv
from procrustean.cli.given_runs import check_own_names, use_own_files
from procrustean.cli.outputs import check_output, refuse_inside, write_table
from procrustean.cli.values import OwnMethod, OwnNet, Quiet, RunArgument

if TYPE_CHECKING:
    from procrustean.deploy.thresholds import Threshold


@dataclass(frozen=True)
class Predict:
    """Classify images with a trained network; writes a CSV file.

    Example: procrustean predict runs/cells new_images --output predictions.csv
    """

    model: RunArgument
    """Folder of a run, of a comparison by --method auto, or of an export."""
    paths: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PATH [PATH ...]")]
    """Images, and folders with images at any depth."""
    method: OwnMethod = None
    net: OwnNet = None
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
class Thresholds:
    """Find the probabilities that give a wanted precision or recall.

    From each on, its class may be announced; measured on the held-out images.

    Example: procrustean thresholds runs/cells --precision 0.95
    """

    model: RunArgument
    """Folder of a run, of a comparison by --method auto, or of an export."""
    precision: float | None = None
    """Wanted share of right announcements, 0 to 1."""
    recall: float | None = None
    """Wanted share of the images of the class that are announced, 0 to 1."""
    prior: str | None = None
    """Class frequencies where the model is used, the same as for predict; without it the probabilities are those that
    predict gives without it, and precision is counted on the held-out images as they are."""
    method: OwnMethod = None
    net: OwnNet = None
    output: Path | None = None
    """CSV file to write as well, with unrounded numbers."""

    def run(self) -> int:
        from procrustean.deploy.thresholds import table_of, thresholds_of

        if self.output is not None:
            check_output(self.output, [self.prior] if self.prior else [])
        use_own_files(self.method, self.net)
        found = thresholds_of(self.model, precision=self.precision, recall=self.recall, prior=self.prior)
        wanted = f"precision {self.precision}" if self.precision is not None else f"recall {self.recall}"
        table = table_of(found, wanted)
        if self.output is not None:
            write_table(self.output, to_csv(table))
        write_result(table, "\n".join(self._remarks(found)))
        return 0

    def _remarks(self, found: Sequence[Threshold]) -> Iterator[str]:
        """What to know before the numbers are used, and how to use them."""
        from procrustean.balance.metrics import FEW_TO_JUDGE
        from procrustean.data.describe import some_names
        from procrustean.deploy.cautions import cautions, sentence
        from procrustean.deploy.model_loading import built_in_prior, model_folder, needs_load_program, spec_of
        from procrustean.engine.probabilities import read_prior

        if few := [t.name for t in found if t.images < FEW_TO_JUDGE]:
            yield f"Fewer than {FEW_TO_JUDGE} held-out images of {some_names(few)}: their lines are rough, or empty."
        folder = model_folder(self.model)
        spec = spec_of(folder)
        given = read_prior(self.prior, spec.classes, spec.calibration.counts)
        for warning in cautions(spec.calibration, spec.classes, built_in_prior(folder) if given is None else given):
            yield sentence(warning)
        by_program = needs_load_program(self.model)
        yield (
            f"These are for the probabilities that {self._given_by(by_program)}. A class is announced for every image "
            "whose probability of it reaches the number, so an image may have several classes, or none."
        )
        if self.precision is not None:
            yield "Each number is the lowest that keeps the precision, not a recommendation."
        if any(t.always for t in found):
            yield "always: even announced for every held-out image, the class has what is wanted."
        if self.output is not None and (self.prior is None or not by_program):
            yield f"To apply them: {self._command(by_program)}"

    def _given_by(self, by_program: bool) -> str:
        if not by_program:
            return f"predict gives {'without --prior' if self.prior is None else f'with --prior {self.prior}'}"
        if self.prior is None:
            return f"{self.model}/load.py gives"
        # The class frequencies of such an export are built in; it cannot be asked for others.
        return f"load.py of an export made with --prior {self.prior} gives; another export refuses them"

    def _command(self, by_program: bool) -> str:
        """What applies the thresholds of the file that was written."""

        if by_program:
            return shlex.join(["python", f"{self.model}/load.py", "--thresholds", str(self.output), "IMAGE"])
        same_prior = [] if self.prior is None else ["--prior", self.prior]
        own = [word for flag in ("method", "net") if (file := getattr(self, flag)) for word in (f"--{flag}", file)]
        return command_text("predict", self.model, "PATH", *own, "--thresholds", self.output, *same_prior)


@dataclass(frozen=True)
class Export:
    """Put a trained network into a folder: weights, model card, loader.

    The folder also holds the class names and the preparation of images; `load.py` loads and runs the network.

    Example: procrustean export runs/cells --format onnx --output cells-onnx
    """

    model: RunArgument
    """Folder of a run, or of a comparison by --method auto."""
    format: Literal["safetensors", "torch", "onnx"] = "safetensors"
    """safetensors for this library, torch for a program that needs torch alone, onnx for one that needs onnxruntime."""
    method: OwnMethod = None
    net: OwnNet = None
    output: Path | None = None
    """New folder; default the run's name with the format behind it."""
    prior: str | None = None
    """Class frequencies where it will be used, built in: balanced, train, or a .json or .csv file."""
    quiet: Quiet = False

    def run(self) -> int:
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
