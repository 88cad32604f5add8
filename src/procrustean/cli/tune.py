"""procrustean tune"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from procrustean.base.console import number_of, write_result
from procrustean.base.progress import reporting
from procrustean.base.table_formats import Cell, Table, table_of
from procrustean.cli.config_file import ConfigCommand, refuse_unnamed
from procrustean.cli.given_runs import finished_results
from procrustean.cli.outputs import check_folder
from procrustean.cli.results import comparisons_of
from procrustean.cli.values import Minutes, SourceArgument, Width
from procrustean.records.run_spec import RunSpec

if TYPE_CHECKING:
    from procrustean.runs.option_spaces import Space
    from procrustean.runs.tuning import Tuned


@dataclass(frozen=True)
class Tune(ConfigCommand):
    """Choose options of a method on held-out images, then train on all.

    Options for tiered-imagenet are chosen on tiered-imagenet-tuning, as in the paper.

    Example: procrustean tune cifar10 --imbalance step --rho 100 --method mfw --over alpha=0.1,0.2,0.5,1,5
    """

    source: SourceArgument
    """Data set: digits, cifar10, cifar100, an .npz file, or a folder of images (one folder per class)."""
    hold_out: float | None = None
    """Training images per class that decide, or below 1 their share, and are not trained on while they do; 0: the
    validation split decides, which is the default where there is one (as for tiered-imagenet), else 3, and 15 % of your
    own images."""
    choose_on: str | None = None
    """Data set on which the options are chosen; default SOURCE itself, for tiered-imagenet its tuning classes."""
    over: tuple[str, ...] = ()
    """What to choose from: OPTION=VALUE,VALUE,... each; with --trials also OPTION=LOW..HIGH. Default by method."""
    repeats: int = 1
    """Training seeds per candidate."""
    trials: int | None = None
    """Candidates that Optuna suggests, instead of the whole grid; needs procrustean[tune]."""
    final_seeds: int = 1
    """Training seeds on all images with the chosen options; 0 stops after the choice."""
    minutes: Minutes = None
    width: Width = None
    output: Path = Path("runs/tune")
    """Folder of the runs and of tuning.json; it holds one search."""
    run_dir: tyro.conf.Suppress[Path | None] = None
    dry_run: bool = False
    """Print the settings that all candidates share as YAML, and what would be tried as comments, then stop."""

    def run(self) -> int:
        from procrustean.runs.choosing import options_text
        from procrustean.runs.option_spaces import default_space, read_space
        from procrustean.runs.preparing import recipe_of
        from procrustean.runs.tuning import Budget, tune
        from procrustean.runs.tuning_candidates import candidate_settings, check_options, check_space, default_hold_out

        reported = RunSpec(**{f.name: getattr(self, f.name) for f in fields(RunSpec) if f.name != "run_dir"})
        if self.dry_run and reported.code:  # only importing it would tell what its options are
            from procrustean.cli.printed_settings import settings_text

            write_result(settings_text(reported))
            return 0
        refuse_unnamed([reported])
        recipe_of(reported)  # what is wrong with the settings is said before anything is trained
        if self.hold_out is None:
            reported = replace(reported, hold_out=default_hold_out(reported, self.choose_on))
        base = candidate_settings(reported, self.choose_on)
        space = read_space(base.method, self.over) if self.over else default_space(base.method, self.source)
        budget = Budget(self.repeats, self.final_seeds, self.trials, self.width, self.minutes)
        if self.dry_run:
            from procrustean.cli.printed_settings import settings_text

            check_space(base, space)
            check_options(base, budget.first(space))
            write_result(settings_text(base, tuned=space) + self._candidates(base, space))
            return 0
        check_folder(self.output)
        with reporting(quiet=self.quiet) as reporter:
            tuned = tune(base, space, self.output, final_source=self.source, budget=budget, reporter=reporter)
        scores = [] if tuned.choice is None else [_table(tuned, base.source if base.source != self.source else None)]
        if not tuned.retrained:
            write_result(*scores, tuned.text)
            return 1 if tuned.failed else 0
        images = "all training images" + f" of {self.source}" * (base.source != self.source)
        trained = f"Trained on {images} with {options_text(tuned.chosen)}:"
        results, code = finished_results(tuned.retrained)
        write_result(*scores, tuned.text, trained, *comparisons_of(results))
        return 1 if tuned.failed else code

    def _candidates(self, base: RunSpec, space: Space) -> str:
        """What would be tried, how it would be judged, and what would be trained in the end, as comments."""
        from procrustean.runs.choosing import options_text
        from procrustean.runs.option_spaces import grid, space_texts

        judges = "held-out images" if base.hold_out else "the images of the validation split"
        seeds = f", {self.repeats} training seeds each" * (self.repeats > 1)
        if self.trials is None:
            candidates = [options_text(options) for options in grid(space)]
            lines = [f"Candidates, judged on {judges}{seeds}:", *candidates]
        else:
            suggested = f"{self.trials} candidates, suggested by Optuna and judged on {judges}{seeds}, from:"
            lines = [suggested, *space_texts(space)]
        if self.final_seeds:
            number = number_of(self.final_seeds, "training seed")
            lines.append(f"Then, with the best of them: all training images of {self.source}, hold_out 0, {number}")
        return "".join(f"# {line}\n" for line in lines)


def _table(tuned: Tuned, chosen_on: str | None) -> Table:
    assert tuned.choice is not None
    rows = []
    for score in tuned.scores:
        numbers = (f"{100 * score.last:.1f}", f"{100 * score.tail:.1f}", str(score.seeds))
        if score.failed:
            numbers = ("failed", "failed", str(score.seeds))
        best = score is tuned.choice.best
        rows.append([Cell(text, best=best) for text in (score.name, *numbers)])
    images = f"{tuned.choice.images} held-out images" + ("" if chosen_on is None else f" of {chosen_on}")
    headings = {"options": "options", "last": "last epoch", "tail": "last tenth", "seeds": "seeds"}
    return table_of(f"Balanced accuracy in % on {images}", headings, rows)
