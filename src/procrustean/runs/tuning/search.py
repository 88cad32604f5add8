"""Tune options on held-out training images, then train on all training images, as the MFW paper does."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from statistics import median
from typing import Any

from procrustean.base.code_files import use_file
from procrustean.base.errors import ConfigError, Diverged, RunError
from procrustean.base.progress import Reporter
from procrustean.base.user_code import failure_text
from procrustean.engine.device import refuse_several_ranks
from procrustean.records.finding_runs import CANDIDATES, CONFIG_FILE
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_names import Distinct
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice.plan_training import planned
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import Outcome, fit_many, outcome_of
from procrustean.runs.one_run import ShownImages
from procrustean.runs.time_box import TimeBox
from procrustean.runs.train_api import run_directory_of
from procrustean.runs.tuning.checking import check_final, check_options, check_runs, check_space
from procrustean.runs.tuning.choice import Choice, Score, choose, options_text, score_of, voting_counts
from procrustean.runs.tuning.is_default import default_text, is_default
from procrustean.runs.tuning.one_search import (
    UNFINISHED,
    Search,
    Study,
    is_decided,
    refuse_another_search,
    write_down,
    write_study,
)
from procrustean.runs.tuning.spaces import AFTER_TRAINING, Space, samples
from procrustean.runs.tuning.suggested import Options, OutOfTime, repeated_text, search_by_optuna, search_grid


@dataclass(frozen=True)
class Tuned:
    """What tuning found; `choice` is None while candidates are unfinished."""

    scores: tuple[Score, ...]
    choice: Choice | None
    chosen: Options
    retrained: tuple[Path, ...]  # run directories on all training images
    text: str
    failed: tuple[str, ...] = ()  # why trainings on all images could not be ended


@dataclass(frozen=True)
class Budget:
    """How much is tried, and how.

    Args:
        repeats: training seeds per candidate.
        final_seeds: training seeds on all images with the chosen options; 0 stops after the choice.
        trials: candidates that Optuna suggests; None tries the whole grid.
        width: runs at a time.
        minutes: stop after so long with everything saved.
    """

    repeats: int = 1
    final_seeds: int = 1
    trials: int | None = None
    width: int | None = None
    minutes: float | None = None

    def search(self, base: RunSpec, space: Space, final_source: str) -> Search:
        """What is searched for with this budget."""
        return Search(base, space, final_source, self.repeats, self.trials, at_once=self.width or 1)


def tune(
    base: RunSpec,
    space: Space,
    output: Path,
    *,
    final_source: str | None = None,
    budget: Budget | None = None,
    reporter: Reporter | None = None,
    clock: Callable[[], float] = time.monotonic,
    began: float | None = None,
) -> Tuned:
    """Choose options by balanced accuracy on held-out images, then train on all images.

    Args:
        base: all settings but those that are tuned; `hold_out` says how many images per class decide, 0 that those
            of the source's own validation split do.
        space: options and what they are chosen from; empty for methods that choose after training.
        output: where runs are kept; the same call goes on where it was stopped, another search is refused there.
        final_source: data set that is trained on with the chosen options; by default that of `base`.
        budget: how much is tried.
        reporter: where progress goes.
        clock: seconds of a clock that never goes back.
        began: time of the clock from which the minutes of the budget count; now, if nothing is said.
    """
    refuse_several_ranks()
    budget, reporter = budget or Budget(), reporter or Reporter()
    _check(budget)
    box = TimeBox(budget.minutes, clock, began)
    for name in base.code.values():
        use_file(name)
    check_space(base, space)
    final_source = final_source or base.source
    search = budget.search(base, space, final_source)
    refuse_another_search(output, search)
    tuning = _Tuning(search, output, budget, reporter, box)
    try:
        if budget.trials is None:
            scores = search_grid(space, tuning.judge)
        else:
            tuning.check(samples(space))
            scores = search_by_optuna(space, tuning.judge, trials=budget.trials, at_once=search.at_once, seed=base.seed)
    except OutOfTime:
        return Tuned((), None, {}, (), UNFINISHED)
    choice = choose(scores, tuning.counts, tuning.is_default)
    after = tuning.after_training(choice.best.options)
    chosen = {**choice.best.options, **after}
    failed = "".join(f" Not trained to the end: {score.name} ({score.failed})." for score in scores if score.failed)
    repeated = repeated_text(space, len(scores), budget.trials)
    default = default_text(base.method) if tuning.is_default(chosen) else ""

    def tuned(retrained: Sequence[Path]) -> Tuned:
        text = choice.text() + default + tuning.remarks(after, retrained) + repeated + failed
        finals = (*retrained, *tuning.further(chosen))
        return Tuned(tuple(scores), choice, chosen, finals, text, tuple(tuning.failed))

    if not is_decided(output):
        # From here on the folder holds final runs: by what choice has to be known even after a kill.
        _write(output, search, tuned([]), tuning.counts)
    found = tuned(tuning.retrain(chosen))
    _write(output, search, found, tuning.counts)
    return found


class _Tuning:
    """The runs of one study."""

    def __init__(self, search: Search, output: Path, budget: Budget, reporter: Reporter, box: TimeBox) -> None:
        self.search, self.output, self.budget, self.reporter, self.box = search, output, budget, reporter, box
        self.base, self.final_source = search.base, search.final_source
        self.elsewhere = self.final_source != self.base.source
        self.sources = Sources(reporter.say)
        self.counts: list[int] = []  # held-out images of each class
        self.left_out: list[str] = []
        self.failed: list[str] = []  # why trainings on all images could not be ended
        self.records: dict[str, list[RunRecord]] = {}
        self.trained_on: dict[Path, str] = {}  # the hash of the images of each finished candidate

    def check(self, candidates: Sequence[Options]) -> None:
        """Refuse what cannot be trained, before any of the candidates has cost time."""
        check_options(self.base, candidates)
        # What has begun was checked then, and images need not be loaded for what is finished.
        new = [c for c in candidates if not (self.place(self._candidate(c, 0)) / CONFIG_FILE).exists()]
        if new:
            check_runs(self.base, new, self.sources)
            if self.elsewhere and self.budget.final_seeds:
                check_final(self._final({}), new, self.sources)

    def judge(self, candidates: Sequence[Options]) -> list[Score | None]:
        """Train the candidates without the held-out images and see how they do on them."""
        self.check(candidates)
        write_down(self.output, self.search)
        configs = [self._candidate(options, seed) for options in candidates for seed in range(self.budget.repeats)]
        self._refuse_other_images(configs)
        outcomes = self._train(configs, {name for options in candidates for name in options}, show="held_out")
        scores: list[Score | None] = []
        for number, options in enumerate(candidates):
            own = outcomes[number * self.budget.repeats : (number + 1) * self.budget.repeats]
            failed = next((str(outcome.error) for outcome in own if outcome.error is not None), "")
            if failed:
                self.reporter.say(f"{options_text(options)}: {failed}")
                scores.append(Score(dict(options), 0.0, 0.0, len(own), failed))
                continue
            records = [outcome.record for outcome in own if outcome.record is not None]
            if len(records) < len(own):
                scores.append(None)
                continue
            self.counts = voting_counts(records[0].data)
            self.left_out = records[0].data.left_out_of_hold_out
            self.records[str(options)] = records
            scores.append(score_of(options, records))
        return scores

    def _refuse_other_images(self, configs: Sequence[RunSpec]) -> None:
        """RunError for finished candidates that were trained before the images were changed, if others were not.

        Candidates come one after the other where Optuna suggests them, and all of them are compared in the end.
        """
        outcomes = [outcome_of(self.place(config), None) for config in configs]
        finished = {o.path: o.record.data.source_hash for o in outcomes if o.record is not None}
        self.trained_on |= finished
        if not self.trained_on or (len(finished) == len(configs) and len(set(self.trained_on.values())) == 1):
            return  # compared with one another alone, whatever the images are now
        now = planned(configs[0], load=self.sources).source_hash
        others = [str(path) for path, images in self.trained_on.items() if now is not None and images != now]
        if others:
            raise RunError(
                f"{', '.join(others)}: trained on other images than {self.base.source} holds now, so that candidates "
                "cannot be compared. Remove these to train them again, or put the images back"
            )

    def is_default(self, options: Any) -> bool:
        """Whether the method takes these options by itself on the data set that is trained on in the end."""
        # Of another data set no record is there to tell.
        return not self.elsewhere and is_default(self.base, dict(options), next(iter(self.records.values()))[0])

    def after_training(self, options: Any) -> Options:
        """What the runs of the best candidate chose themselves when they were trained."""
        name = AFTER_TRAINING.get(self.base.method)
        if name is None or name in options:
            return {}
        return {name: median(record.method.finish[name] for record in self.records[str(options)])}

    def retrain(self, chosen: Options) -> list[Path]:
        """Train on all training images with the chosen options; none while the time is up.

        With a validation split the candidates were trained on all of them: such a run is taken over, not repeated.
        """
        placed = [self._placed(chosen, number) for number in range(self.budget.final_seeds)]
        for config in placed:
            self._take_over(config)
        if placed and not self.box.is_over():
            where = f" of {self.final_source}" * self.elsewhere
            is_done = all(config.run_dir is not None and RunFolder(config.run_dir).finished for config in placed)
            then = f"trained on all{where} already" if is_done else f"now training on all{where}"
            self.reporter.say(f"chosen on {sum(self.counts)} held-out images: {options_text(chosen)}; {then}")
        outcomes = self._train(placed, chosen, show="test")
        self.failed = [f"{outcome.path}: {outcome.error}" for outcome in outcomes if outcome.error is not None]
        return [outcome.path for outcome in outcomes if outcome.record is not None]

    def further(self, chosen: Options) -> list[Path]:
        """Runs on all images that an earlier call with more seeds has finished: they stay in the record."""
        places = (self._placed(chosen, number).run_dir for number in count(self.budget.final_seeds))
        begun = takewhile(Path.exists, filter(None, places))  # a run that diverged has left its folder, too
        return [path for path in begun if RunFolder(path).finished]

    def remarks(self, after: Options, retrained: Sequence[Path]) -> str:
        text = ""
        if self.elsewhere:
            text += f" The held-out images are of {self.base.source}, the final training is on {self.final_source}."
        if self.left_out:
            text += f" Without a say, because they have too few images: {', '.join(self.left_out)}."
        if after:
            text += f" After training, {options_text(after)} did best on the held-out images."
        if self.failed:
            text += f" Not trained to the end on all images: {'; '.join(self.failed)}."
        if len(retrained) + len(self.failed) < self.budget.final_seeds:
            text += " The training on all images is not finished; give the same command again."
        return text

    def _candidate(self, options: Options, seed: int) -> RunSpec:
        config = replace(self.base, options={**self.base.options, **options}, seed=self.base.seed + seed)
        return replace(config, run_dir=self.place(config))

    def _final(self, options: Options) -> RunSpec:
        """The training on all images with these options."""
        options = {**self.base.options, **options}
        return replace(self.base, source=self.final_source, hold_out=0, hold_out_from="training", options=options)

    def _placed(self, chosen: Options, number: int) -> RunSpec:
        """The training on all images with one of the seeds, and where it is kept."""
        config = replace(self._final(chosen), seed=self.base.seed + number)
        return replace(config, run_dir=self.output / "final" / config.slug)

    def place(self, config: RunSpec) -> Path:
        """Where the candidate with these settings is kept; the folder is named after what it computes."""
        return self.output / CANDIDATES / config.slug

    def _take_over(self, config: RunSpec) -> None:
        trained, final = self.place(config), config.run_dir
        assert final is not None
        if final.exists() or not RunFolder(trained).finished:
            return
        begun = final.with_name(f".{final.name}.part")  # a copy is there as a whole or not at all
        shutil.rmtree(begun, ignore_errors=True)
        shutil.copytree(trained, begun)
        os.replace(begun, final)

    def _train(self, configs: Sequence[RunSpec], tried: Collection[str], show: ShownImages) -> list[Outcome]:
        def named(config: RunSpec) -> Reporter:
            # A run of Optuna's may have no others beside it to differ from.
            own = {name: value for name, value in config.options.items() if name in tried}
            return Distinct(self.reporter, options_text(own) if own else "")

        # What is finished is taken as it is: its images need not be there any more.
        waiting = [config for config in configs if not _is_finished(run_directory_of(config))]
        trained = fit_many(
            waiting,
            sources=self.sources,
            width=self.budget.width,
            reporter=self.reporter,
            reporter_of=named,
            time_up=self.box.is_over,
            show=show,
        )
        by_path = {outcome.path: outcome for outcome in trained}
        outcomes = [by_path.get(path) or outcome_of(path, None) for path in map(run_directory_of, configs)]
        for outcome in outcomes:
            if outcome.elsewhere:
                self.reporter.say(str(outcome.error))
            elif outcome.error is not None and not isinstance(outcome.error, Diverged):
                raise RunError(f"{outcome.path} failed: {failure_text(outcome.error)}") from outcome.error
        # What another process was training is not finished, or it is by now.
        return [outcome_of(outcome.path, None) if outcome.elsewhere else outcome for outcome in outcomes]


def _is_finished(path: Path) -> bool:
    try:
        directory, _, _ = RunFolder.open(path)
    except RunError:  # not begun, or damaged, which is told when its turn comes
        return False
    return directory.finished


def _check(budget: Budget) -> None:
    if budget.repeats < 1 or budget.final_seeds < 0:
        raise ConfigError(
            f"repeats = {budget.repeats}, final_seeds = {budget.final_seeds} received; at least 1 and 0 are needed"
        )
    if budget.minutes is not None and not budget.minutes >= 0:
        raise ConfigError(f"minutes = {budget.minutes:g} received; it has to be 0 or more")


def _write(output: Path, search: Search, tuned: Tuned, counts: Sequence[int]) -> None:
    assert tuned.choice is not None
    study = Study.of(
        search,
        held_out_images=sum(counts),
        scores=list(tuned.scores),
        chosen=tuned.chosen,
        ties=[dict(score.options) for score in tuned.choice.ties],
        within_one_standard_error=[dict(score.options) for score in tuned.choice.close],
        standard_error=tuned.choice.error,
        retrained=[str(path) for path in tuned.retrained],
        text=tuned.text,
    )
    write_study(output, study)
