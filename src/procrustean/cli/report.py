"""procrustean report"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from procrustean.base.errors import ConfigError


@dataclass(frozen=True)
class Report:
    """Make one HTML page of finished runs, which opens offline.

    Example: procrustean report runs/* --output report.html
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, result files, or folders of either."""
    output: Path = Path("report.html")
    """File to write. Another report is overwritten, any other file is not."""
    examples: int = 5
    """Example images of each of the worst confusions, if test images and network are found; 0 for none."""
    method: tuple[str, ...] = ()
    """The files of methods and networks of your own, for the examples: FILE.py ... They have to be what they were."""
    data_dir: Path | None = None
    """Where data sets are found; default as in training. Nothing is downloaded."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from procrustean.base.code_files import use_file
        from procrustean.base.console import write_result
        from procrustean.base.progress import make_reporter
        from procrustean.cli.given_runs import readable_runs
        from procrustean.report.html_page import write_report

        if not self.runs:
            raise ConfigError("no run received; name at least one folder of a run: procrustean report RUN")
        if self.examples < 0:
            raise ConfigError(f"examples = {self.examples} received; it has to be 0 or more")
        for method in self.method:
            use_file(method)
        runs, code = readable_runs(self.runs)
        write_report(
            list(runs),
            self.output,
            examples=self.examples,
            data_dir=self.data_dir,
            say=make_reporter(quiet=self.quiet).say,
        )
        write_result(f"{self.output} ({self.output.stat().st_size / 1e6:.1f} MB): open it in any browser")
        return code
