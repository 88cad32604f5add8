"""procrustean paper reproduce"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from procrustean.base.console import duration_text, notify, number_of, write_result
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.progress import make_reporter
from procrustean.base.yaml_files import read_yaml
from procrustean.cli.config_file import allow, refuse_unnamed
from procrustean.cli.outputs import check_folder
from procrustean.cli.values import DataDir, Minutes, Quiet, Width

if TYPE_CHECKING:
    from procrustean.paper.definitions import Definitions, Part
    from procrustean.paper.planning import Plan
    from procrustean.paper.result_store import Store
    from procrustean.runs.image_loading import Sources


#: Training seeds of each cell, unless the user says how many.
SEEDS = 3
#: The smallest file of tables.
EXAMPLE = "tables: {mine: {columns: {digits: {source: digits}}, rows: {ERM: {method: erm}}}}"


@dataclass(frozen=True)
class Reproduce:
    """Train cells of the paper's tables and show ours beside its numbers.

    Without a name it lists the tables. Finished runs are found by what they compute and not repeated; give the same
    command again to go on.

    Example: procrustean paper reproduce cifar --rows MFW MFW-DRW --columns 'cifar10-*100' --seeds 3 --minutes 9
    """

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[TABLE ...]")] = ()
    """Tables or suites, in the order of their importance."""
    rows: tuple[str, ...] = ()
    """Rows of the tables or suites, by name or pattern ('MFW*'); all by default."""
    columns: tuple[str, ...] = ()
    """Columns of the tables or suites, by name or pattern ('cifar10-*'); all by default."""
    seeds: int | None = None
    """Training seeds of each cell: 0, 1, ... up to so many; default 3, and all there are where tables are printed."""
    data_seed: int = 0
    """Which images of a class are kept; 0 gives the published sets."""
    held_out: bool = False
    """Also train each cell with a hundredth of the images held out, at least 3 per class, for the held-out column."""
    minutes: Minutes = None
    width: Width = None
    output: Path = Path("runs/reproduce")
    """Folder of the run directories and of the finished tables."""
    results: Path = Path("results")
    """Folder of result files, one per run; what is in it, or below, is not trained again."""
    data_dir: DataDir = None
    download: bool = False
    """Download CIFAR if it is not found, instead of leaving its cells out."""
    retry: bool = False
    """Try runs again that ended in an error."""
    dry_run: bool = False
    """Print the plan and the predicted time, then stop."""
    show: bool = False
    """Print the tables from the results there are, all of them unless some are named; train nothing."""
    pages: Path | None = None
    """Write reproduction.md and which-method.md into this folder from the results; train nothing."""
    format: Literal["table", "markdown", "latex"] = "table"
    """How tables are printed: drawn for the terminal, or as markdown or LaTeX (booktabs)."""
    tables: Path | None = None
    """YAML file with tables of your own, instead of the paper's."""
    allow_code: tuple[str, ...] = ()
    """Files of methods of your own that --tables may name: FILE.py ... Read them first: they are run, except in a dry
    run."""
    quiet: Quiet = False

    def run(self) -> int:
        import time

        began = time.monotonic()
        from procrustean.paper.result_store import Store

        self._check()
        definitions = self._definitions()
        names = tuple(definitions.tables) if self.show and not self.names else self.names
        parts = definitions.parts(names, self.rows, self.columns)
        trains = bool(names) and not self.show and self.pages is None
        if self.pages is not None:
            check_folder(self.pages, "--pages")
        if trains and not self.dry_run:
            refuse_unnamed(cell.config() for cell in definitions.cells(parts))
            check_folder(self.output)
            check_folder(self.results, "--results")
        if not trains and not self.results.is_dir():  # training makes it
            notify(f"there is no folder {self.results}, so nothing counts as measured; --results names another one")
        # Pages are made of the results alone, which go with them; what is left out is no progress.
        store = Store(self.results, None if self.pages is not None else self.output, notify)
        if self.pages is not None:
            return self._write_pages(self.pages, definitions, store)
        if not names:
            from procrustean.paper.cell_tables import listing

            write_result(listing(definitions, store, data_seed=self.data_seed))
            return 0
        if self.show:
            self._show(definitions, parts, store)
            if failed := len(store.failures()):
                notify(
                    f"{number_of(failed, 'run')} failed in earlier calls; which, and why, is in {store.failures_file}"
                )
            return 0
        return self._train(definitions, parts, store, began)

    def _check(self) -> None:
        """ConfigError for flags that contradict each other or cannot be."""
        if self.pages is not None and (self.names or self.tables is not None):
            raise ConfigError("--pages tells of all tables of the paper; leave names of tables and --tables out")
        if self.minutes is not None and not self.minutes >= 0:
            raise ConfigError(
                f"minutes = {self.minutes:g} received; give 0 or more, or leave it out to train to the end"
            )
        for name, value in (("seeds", self.seeds), ("width", self.width)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} received; it has to be at least 1")
        if not self.names and (self.rows or self.columns):
            raise ConfigError("rows and columns received without a table; write its name before --rows and --columns")

    def _definitions(self) -> Definitions:
        from procrustean.paper.planning import check_cell
        from procrustean.paper.table_files import paper_definitions, read_definitions

        if not self.dry_run:
            allow(self.allow_code)
        if self.tables is None:
            return paper_definitions()
        definitions = read_definitions(read_yaml(self.tables, example=EXAMPLE), origin=str(self.tables))
        for table in definitions.tables.values():
            for cell in table.cells():
                check_cell(cell)
        return definitions

    def _plan(self, definitions: Definitions, parts: list[Part], store: Store, sources: Sources) -> Plan:
        from procrustean.paper.plan_in_words import blocked_lines
        from procrustean.paper.planning import absent_data, make_plan
        from procrustean.paper.train_plan import machine_name

        plan = make_plan(
            definitions,
            parts,
            store,
            seeds=SEEDS if self.seeds is None else self.seeds,
            data_seed=self.data_seed,
            held_out=self.held_out,
            data_dir=self.data_dir,
            download=self.download,
            retry=self.retry,
            device=machine_name()[0],
            # A dry run plans for data that are still to come, and names them at its end.
            absent=(lambda source, data_dir: None) if self.dry_run else absent_data,
            images=sources,
        )
        if plan.blocked and not plan.runs:
            raise ConfigError("nothing can be trained. " + "; ".join(blocked_lines(plan)))
        return plan

    def _train(self, definitions: Definitions, parts: list[Part], store: Store, began: float) -> int:
        from procrustean.paper.plan_in_words import absence_lines, blocked_lines, plan_table, plan_text
        from procrustean.paper.train_plan import carry_out, default_width, first_rate, machine_name
        from procrustean.runs.image_loading import Sources

        reporter = make_reporter(quiet=self.quiet)
        sources = Sources(reporter)
        plan = self._plan(definitions, parts, store, sources)
        width = default_width() if self.width is None else self.width
        rate, machine = first_rate(), machine_name()[1]
        summary = plan_text(plan, rate=rate, width=width, machine=machine)
        if self.dry_run:
            absent = absence_lines(plan, self.data_dir, rate=rate, width=width, machine=machine)
            missing = [*blocked_lines(plan), *absent]
            write_result(plan_table(plan), "\n".join([summary, *missing]))
            return 0

        for line in blocked_lines(plan):  # which is no progress: --quiet does not silence it
            notify(line)
        try:
            reporter.say(summary)
            report = carry_out(
                plan,
                store,
                command=shlex.join(["procrustean", *sys.argv[1:]]),  # to be given again: patterns and names with spaces
                reporter=reporter,
                minutes=self.minutes,
                width=width,
                sources=sources,
                began=began,
            )
        finally:
            reporter.close()
        self._show(definitions, parts, store, begun=report.begun)
        for error in dict.fromkeys(report.errors.values()):
            names = "; ".join(name for name, own in report.errors.items() if own == error)
            notify(f"{names} failed: {error}")
        failed_before = [run.name for run in plan.in_state("failed")]
        if failed_before:
            notify(
                f"failed in an earlier call and not tried again: {'; '.join(failed_before)}; why is in "
                f"{store.failures_file}, and --retry tries them again"
            )
        if report.elsewhere:
            notify(
                f"being trained by another process: {'; '.join(report.elsewhere)}; give the same command again once it "
                "has ended, to see them too"
            )
        if report.remaining:
            notify(
                f"the time is up: {report.finished} finished, {report.remaining} to go, about "
                f"{duration_text(report.seconds_left)}; give the same command again to go on"
            )
        return 1 if report.errors or failed_before else 0

    def _show(self, definitions: Definitions, parts: list[Part], store: Store, *, begun: int = 0) -> None:
        """Print the tables, and write them after training.

        Args:
            begun: runs that this call has left unfinished.
        """
        from procrustean.paper.cell_tables import (
            each_text_once,
            finished_tables,
            in_format,
            write_tables,
        )

        names = list(dict.fromkeys(part.table for part in parts))
        seen, only = store.with_seeds(self.seeds), set(definitions.cells(parts))
        pieces = [
            piece
            for name in names
            for piece in finished_tables(definitions.tables[name], seen, data_seed=self.data_seed, only=only)
        ]
        if not pieces and begun:
            pieces = [f"No run is finished yet, {begun} begun in {self.output}."]
        elif not pieces:
            pieces = [f"Nothing of this is among the results in {self.results} or {self.output}."]
        if self.format == "table":
            write_result(*each_text_once(pieces))
        else:
            write_result(in_format(each_text_once(pieces), self.format))
        if not self.show:  # the files hold the tables in full, whatever was asked for last
            write_tables([definitions.tables[name] for name in names], store, self.output, data_seed=self.data_seed)

    def _write_pages(self, folder: Path, definitions: Definitions, store: Store) -> int:
        from procrustean.paper.page_parts import read_page, replace_page
        from procrustean.paper.reproduction import reproduction_page
        from procrustean.paper.which_method import advice_page

        advice = "choose another --pages"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {folder} ({error.strerror or error}); {advice}") from error
        for name, make in (("reproduction.md", reproduction_page), ("which-method.md", advice_page)):
            path = folder / name
            before = read_page(path, advice) if path.exists() else ""
            replace_page(path, make(definitions, store, before), advice)
            notify(f"wrote {path}")
        return 0
