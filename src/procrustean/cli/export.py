"""procrustean export"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


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
        from procrustean.base.code_files import use_file
        from procrustean.base.console import write_result
        from procrustean.base.progress import make_reporter
        from procrustean.cli.outputs import refuse_inside
        from procrustean.deploy.export_folder import export
        from procrustean.records.auto_record import chosen_run

        for file in (self.method, self.net):
            if file is not None:
                use_file(file)
        reporter = make_reporter(quiet=self.quiet)
        run = chosen_run(self.model)
        refuse_inside(run, self.output or Path())
        if run != self.model:
            reporter.say(f"using {run}, which was chosen in {self.model}")
        done = export(self.model, form=self.format, output=self.output, prior=self.prior, say=reporter.say)
        checked = f"checked: probabilities differ from the run's by at most {done.difference:.1e}"
        write_result(f"{done.folder}: {', '.join(done.files)}\n{checked}")
        return 0
