"""procrustean report"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from ..errors import ConfigError, RunError

DEFAULT_OUTPUT = Path("report.html")


@dataclass(frozen=True)
class Report:
    """Make one HTML page of finished runs that opens anywhere, without a network; or serve it while they train.

    Example: procrustean report runs/* --output report.html
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, result files, or folders of either."""
    output: Path | None = None
    """File to write; default report.html. Another report is overwritten, any other file is not."""
    examples: int = 5
    """Example images for each of the worst confusions, where test images and network are found; 0 for none."""
    method: tuple[str, ...] = ()
    """The files of their methods, as far as they are your own, for the examples of networks that these change: FILE.py
    ... They have to be what they were."""
    data_dir: Path | None = None
    """Where data sets are found; default as in training. Nothing is downloaded."""
    watch: bool = False
    """Serve the page to this machine and keep it current while the runs go on, until Ctrl-C."""
    port: int = 8723
    """Port of the page with --watch; 0 for any that is free."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        if not self.runs:
            raise ConfigError("no run received; name at least one folder of a run: procrustean report RUN")
        if self.examples < 0:
            raise ConfigError(f"examples = {self.examples} received; it has to be 0 or more")
        if not self.watch:
            return self._write()
        if self.output is not None:
            raise ConfigError("--watch serves the page and writes no file; leave --output out, or --watch")
        if self.method:
            raise ConfigError(
                "--watch shows no example images, which the methods are for; leave --method out, or --watch"
            )
        return self._serve()

    def _serve(self) -> int:
        from ..console import make_reporter
        from ..report.watch import Watched, serve
        from ..run_places import no_run_at
        from ..streams import notify, write_result

        for run in self.runs:
            if not run.exists():
                raise RunError(
                    f"{no_run_at(run)} The folder of a run appears when training begins, after the images are loaded: "
                    "start the report again then"
                )
        serve(
            Watched(self.runs, say=notify),
            self.port,
            lambda address: write_result(f"the report is at {address} and follows the training; Ctrl-C ends it"),
        )
        make_reporter(quiet=self.quiet).say("the report is no longer served")
        return 0

    def _write(self) -> int:
        from ..console import make_reporter
        from ..method_files import use_file
        from ..report.html_page import write_report
        from ..streams import write_result
        from .outcome import readable_runs

        for method in self.method:
            use_file(method)
        output = self.output or DEFAULT_OUTPUT
        runs, code = readable_runs(self.runs)
        write_report(
            list(runs),
            output,
            examples=self.examples,
            data_dir=self.data_dir,
            say=make_reporter(quiet=self.quiet).say,
        )
        write_result(f"{output} ({output.stat().st_size / 1e6:.1f} MB): open it in any browser")
        return code
