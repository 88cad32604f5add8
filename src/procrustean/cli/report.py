"""procrustean report"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from procrustean.base.errors import ConfigError, RunError

DEFAULT_OUTPUT = Path("report.html")
DEFAULT_EXAMPLES, DEFAULT_PORT = 5, 8723


@dataclass(frozen=True)
class Report:
    """Make one HTML page of finished runs that opens anywhere, without a network; or serve it while they train.

    Example: procrustean report runs/* --output report.html
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, result files, or folders of either."""
    output: Path | None = None
    """File to write; default report.html. Another report is overwritten, any other file is not."""
    examples: int | None = None
    """Example images of each of the worst confusions, if test images and network are found; default 5, 0 for none."""
    method: tuple[str, ...] = ()
    """The files of methods and networks of your own, for the examples: FILE.py ... They have to be what they were."""
    data_dir: Path | None = None
    """Where data sets are found; default as in training. Nothing is downloaded."""
    watch: bool = False
    """Serve the page to this machine and keep it current while the runs go on, until Ctrl-C."""
    port: int | None = None
    """Port of the page with --watch; default 8723, 0 for any that is free."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        if not self.runs:
            raise ConfigError("no run received; name at least one folder of a run: procrustean report RUN")
        if self.examples is not None and self.examples < 0:
            raise ConfigError(f"examples = {self.examples} received; it has to be 0 or more")
        self._refuse_idle_options()
        return self._serve() if self.watch else self._write()

    def _refuse_idle_options(self) -> None:
        """ConfigError for an option that the call would not look at."""
        if not self.watch:
            if self.port is not None:
                raise ConfigError(
                    f"--port {self.port} received, but without --watch a file is written and nothing is served; leave "
                    "it out, or add --watch"
                )
            return
        if self.output is not None:
            raise ConfigError("--watch serves the page and writes no file; leave --output out, or --watch")
        for option, given in (
            ("--examples", self.examples is not None),
            ("--method", bool(self.method)),
            ("--data-dir", self.data_dir is not None),
        ):
            if given:
                raise ConfigError(
                    f"--watch shows no example images, which {option} is for; leave {option} out, or --watch"
                )

    def _serve(self) -> int:
        from procrustean.base.console import make_reporter
        from procrustean.base.streams import notify, write_result
        from procrustean.records.finding_runs import no_run_at
        from procrustean.report.watch import Watched, serve

        for run in self.runs:
            if not run.exists():
                raise RunError(
                    f"{no_run_at(run)} The folder of a run appears when training begins, after the images are loaded: "
                    "start the report again then"
                )
        serve(
            Watched(self.runs, say=notify),
            DEFAULT_PORT if self.port is None else self.port,
            lambda address: write_result(f"the report is at {address} and follows the training; Ctrl-C ends it"),
        )
        make_reporter(quiet=self.quiet).say("the report is no longer served")
        return 0

    def _write(self) -> int:
        from procrustean.base.code_files import use_file
        from procrustean.base.console import make_reporter
        from procrustean.base.streams import write_result
        from procrustean.cli.outcome import readable_runs
        from procrustean.report.html_page import write_report

        for method in self.method:
            use_file(method)
        output = self.output or DEFAULT_OUTPUT
        runs, code = readable_runs(self.runs)
        write_report(
            list(runs),
            output,
            examples=DEFAULT_EXAMPLES if self.examples is None else self.examples,
            data_dir=self.data_dir,
            say=make_reporter(quiet=self.quiet).say,
        )
        write_result(f"{output} ({output.stat().st_size / 1e6:.1f} MB): open it in any browser")
        return code
