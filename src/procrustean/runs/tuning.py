"""Tune options on held-out training images, then train on all training images, as the MFW paper does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec
from msgspec import Struct

from procrustean.base.errors import ConfigError, ImagesChanged
from procrustean.base.json_files import FORMAT
from procrustean.base.own_code import use_file
from procrustean.base.progress import Distinct, Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.sources import place_of
from procrustean.engine.device import refuse_several_ranks
from procrustean.engine.stored_calibration import HELD_OUT_SCORES, TrialScores, held_out_scores
from procrustean.engine.training import Interrupted
from procrustean.records.finding_runs import CANDIDATES, STUDY
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import RunSpec
from procrustean.records.several_runs import Several, agreed, begin, write_record
from procrustean.runs.advice import Plan
from procrustean.runs.choosing import Choice, Score, choose, options_text, score_of, voting_counts
from procrustean.runs.cost import TimeBox
from procrustean.runs.final import train_on_all
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import Outcome, fit_many, raise_failures
from procrustean.runs.one_run import STOPPED_AMONG_MANY, ShownImages, Stopped
from procrustean.runs.option_spaces import (
    AFTER_TRAINING,
    Options,
    OutOfTime,
    Space,
    grid,
    samples,
    search_by_optuna,
    search_grid,
)
from procrustean.runs.trials import plan_of
from procrustean.runs.tuning_candidates import check_candidates, check_options, check_space, final_plan, on_all
from procrustean.runs.ways import open_ways

UNFINISHED = "Not all candidates are finished; everything is saved. Give the same command again."


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

    def check(self) -> None:
        if self.repeats < 1 or self.final_seeds < 0:
            raise ConfigError(
                f"repeats = {self.repeats}, final_seeds = {self.final_seeds} received; at least 1 and 0 are needed"
            )
        if self.minutes is not None and not self.minutes >= 0:
            raise ConfigError(f"minutes = {self.minutes:g} received; it has to be 0 or more")

    def first(self, space: Space) -> list[Options]:
        """The whole grid, or a few candidates in which everything that Optuna may suggest occurs."""
        return grid(space) if self.trials is None else samples(space)


class Study(Several, Struct, frozen=True, kw_only=True):
    """The content of tuning.json: a search, and what it has found so far."""

    FILE, FLAG = STUDY, "--output"

    format: Literal[1] = FORMAT
    asked: RunSpec = msgspec.field(name="config")
    images: str | None = None  # hash of the user's, on which it began
    final_source: str | None = None  # where it is another one than is searched on
    space: dict[str, Any]
    repeats: int
    trials: int | None
    at_once: int | None = None  # of suggestions by Optuna
    scores: list[Score] = []
    chosen: dict[str, Any] = {}
    held_out_images: int = 0
    ties: list[dict[str, Any]] = []
    within_one_standard_error: list[dict[str, Any]] = []
    standard_error: float = 0.0
    retrained: list[str] = []
    text: str = UNFINISHED


def study_of(base: RunSpec, space: Space, final_source: str, budget: Budget) -> Study:
    """What a folder is for that holds this search."""
    return Study(
        asked=base,
        source_path=place_of(base.source),
        final_source=None if final_source == base.source else final_source,
        space={name: list(v) if isinstance(v, tuple) else f"{v.low}..{v.high}" for name, v in space.items()},
        repeats=budget.repeats,
        trials=budget.trials,
        at_once=None if budget.trials is None else budget.width or 1,
    )


def begun(output: Path, new: Study) -> Study | None:
    """The search that a folder holds, if it is the same one; another is refused."""
    deciding = ("final_source", "space", "repeats", "trials", "at_once")
    return agreed(output, Study, new.asked, **{name: getattr(new, name) for name in deciding})


@dataclass(frozen=True)
class Tuned:
    """What tuning found; `choice` is None while candidates are unfinished."""

    scores: tuple[Score, ...]
    choice: Choice[Score] | None
    chosen: Options
    retrained: tuple[Path, ...]  # run directories on all training images
    text: str
    failed: tuple[str, ...] = ()  # why trainings on all images could not be ended


def tune(
    base: RunSpec,
    space: Space,
    output: Path,
    *,
    final_source: str | None = None,
    budget: Budget | None = None,
    reporter: Reporter | None = None,
) -> Tuned:
    """Choose options by balanced accuracy on held-out images, then train on all images.

    Where settings leave open how photographs are trained on, the ways are tried first, as `train` does; all
    candidates are trained by the one that is taken.

    Args:
        base: all settings but those that are tuned; `hold_out` says how many images per class decide, 0 that those
            of the source's own validation split do.
        space: options and what they are chosen from; empty for methods that choose after training.
        output: where runs are kept; the same call goes on where it was stopped, another search is refused there.
        final_source: data set that is trained on with the chosen options; by default that of `base`.
        budget: how much is tried.
        reporter: where progress goes.
    """
    refuse_several_ranks()
    budget, reporter, final_source = budget or Budget(), reporter or Reporter(), final_source or base.source
    budget.check()
    for name in base.code.values():
        use_file(name)
    check_space(base, space)
    check_options(base, budget.first(space))
    study = study_of(base, space, final_source, budget)
    kept = begun(output, study)
    try:
        search = _Search(base, output, final_source, budget, reporter)
        images = search.plan.source_hash
        study = msgspec.structs.replace(study, images=images)
        if kept is None:
            check_candidates(search.plan, search.final, budget.first(space), reporter)
            begin(output, study)
        elif kept.images not in (None, images):
            raise ImagesChanged(
                f"{output} was begun on other images than {base.source} holds now; put those back, or choose another "
                "folder"
            )
        scores = search.scores(space)
    except OutOfTime:
        return Tuned((), None, {}, (), UNFINISHED)
    choice = choose(scores, search.counts)
    chosen = {**choice.best.options, **search.after_training(choice.best.options)}

    def found(outcomes: Sequence[Outcome]) -> Tuned:
        failed = tuple(f"{outcome.path}: {outcome.error}" for outcome in outcomes if outcome.error is not None)
        paths = tuple(outcome.path for outcome in outcomes if outcome.record is not None)
        text = choice.text() + search.remarks(scores, chosen, failed, finished=len(paths))
        tuned = Tuned(tuple(scores), choice, chosen, paths, text, failed)
        write_record(output, _ended(study, tuned, choice))
        return tuned

    found([])  # from here on the folder holds final runs: by what choice has to be known even after a kill
    tuned = found(search.retrain(choice.best.options, chosen))
    search.train_for_use(tuned.retrained)
    return tuned


def _ended(study: Study, tuned: Tuned, choice: Choice[Score]) -> Study:
    return msgspec.structs.replace(
        study,
        held_out_images=choice.images,
        scores=list(tuned.scores),
        chosen=tuned.chosen,
        ties=[dict(score.options) for score in choice.ties],
        within_one_standard_error=[dict(score.options) for score in choice.close],
        standard_error=choice.error,
        retrained=[str(path) for path in tuned.retrained],
        text=tuned.text,
    )


class _Search:
    """The runs of a search: candidates on part of the training images, then the chosen options on all of them.

    Args:
        base, output, final_source, budget, reporter: as of `tune`.
    """

    def __init__(self, base: RunSpec, output: Path, final_source: str, budget: Budget, reporter: Reporter) -> None:
        self.base, self.output, self.budget, self.reporter = base, output, budget, reporter
        self.box, self.sources = TimeBox(budget.minutes), Sources(reporter)
        self.plan = self._planned()
        self.elsewhere = final_source != base.source
        self.final = final_plan(self.plan, final_source, self.sources)
        self.counts: list[int] = []  # held-out images of each class
        self.left_out: list[str] = []
        self.records: dict[str, list[RunRecord]] = {}

    def _planned(self) -> Plan:
        """The settings that all candidates share, with nothing left open."""
        with stop_on_signal(self.reporter.say) as stop:
            try:
                plan = plan_of(
                    self.base, self.output, self.sources, self.reporter, stop=lambda: stop() or self.box.is_over()
                )
            except Interrupted:
                if stop():
                    raise Stopped(STOPPED_AMONG_MANY, stop.exit_code) from None
                raise OutOfTime from None
        for line in plan.why:
            self.reporter.say_once(line)
        return replace(plan, scores=None)  # of the way with the method's own options

    def scores(self, space: Space) -> list[Score]:
        trials = self.budget.trials
        if trials is None:
            return search_grid(space, self.judge)
        at_once = self.budget.width or 1
        return search_by_optuna(space, self.judge, trials=trials, at_once=at_once, seed=self.base.seed)

    def judge(self, candidates: Sequence[Options]) -> list[Score | None]:
        """Train the candidates without the held-out images and see how they do on them."""
        repeats = self.budget.repeats
        plans = [self._run(self.plan, options, seed, CANDIDATES) for options in candidates for seed in range(repeats)]
        outcomes = self._train(plans, {name for options in candidates for name in options}, show="held_out")
        return [
            self._score(options, outcomes[place * repeats : (place + 1) * repeats])
            for place, options in enumerate(candidates)
        ]

    def _score(self, options: Options, outcomes: Sequence[Outcome]) -> Score | None:
        """None where some of its runs are not finished."""
        failed = next((str(outcome.error) for outcome in outcomes if outcome.error is not None), "")
        if failed:
            self.reporter.say(f"{options_text(options)}: {failed}")
            return Score(dict(options), 0.0, 0.0, len(outcomes), failed)
        records = [outcome.record for outcome in outcomes if outcome.record is not None]
        if len(records) < len(outcomes):
            return None
        self.counts = voting_counts(records[0].data)
        self.left_out = records[0].data.left_out_of_hold_out
        self.records[str(options)] = records
        return score_of(options, records)

    def after_training(self, options: Options) -> Options:
        """What the runs of the best candidate chose themselves when they were trained."""
        name = AFTER_TRAINING.get(self.base.method)
        if name is None or name in options:
            return {}
        return {name: median(record.method.finish[name] for record in self.records[str(options)])}

    def retrain(self, best: Options, chosen: Options) -> list[Outcome]:
        """Train on all training images with the chosen options: of the best candidate, with what it chose itself."""
        final = replace(self.final, scores=self._scores(best))
        plans = [self._run(final, chosen, seed, "final") for seed in range(self.budget.final_seeds)]
        for plan in plans:
            self._take_over(plan)
        if not all(RunFolder(_place(plan)).finished for plan in plans) and not self.box.is_over():
            where = f" of {self.final.config.source}" * self.elsewhere
            self.reporter.say(
                f"chosen on {sum(self.counts)} held-out images: {options_text(chosen)}; now training on all{where}"
            )
        return self._train(plans, chosen, show="test")

    def train_for_use(self, measured: Sequence[Path]) -> None:
        """Where `train` does so: once more on all images, those set aside for tests too."""
        splits = self.final.splits
        if splits is None or splits.aside is None or not open_ways(self.base, self.sources):
            return
        for run in measured:
            if not self.box.is_over():
                try:
                    train_on_all(run, splits, self.reporter)
                except Stopped as stopped:
                    raise Stopped(STOPPED_AMONG_MANY, stopped.exit_code) from None

    def _scores(self, best: Options) -> TrialScores | None:
        """What calibrates the training on all images: answers of the best candidate on those that it has not seen."""
        candidate = RunFolder(_place(self._run(self.plan, best, 0, CANDIDATES)))
        if self.elsewhere or not self.plan.config.hold_out or not candidate.file(HELD_OUT_SCORES).exists():
            return None
        return TrialScores(*held_out_scores(candidate), tuple(self.records[str(best)][0].data.classes))

    def remarks(self, scores: Sequence[Score], chosen: Options, failed: Sequence[str], *, finished: int) -> str:
        """What else there is to say of the choice and of the training on all images."""
        text = ""
        if self.elsewhere:
            final = self.final.config.source
            text += f" The held-out images are of {self.base.source}, the final training is on {final}."
        if self.left_out:
            text += f" Without a say, because they have too few images: {', '.join(self.left_out)}."
        if after := {name: value for name, value in chosen.items() if name not in scores[0].options}:
            text += f" After training, {options_text(after)} did best on the held-out images."
        if failed:
            text += f" Not trained to the end on all images: {'; '.join(failed)}."
        if finished + len(failed) < self.budget.final_seeds:
            text += " The training on all images is not finished; give the same command again."
        return text + "".join(f" Not trained to the end: {one.name} ({one.failed})." for one in scores if one.failed)

    def _run(self, plan: Plan, options: Options, number: int, folder: str) -> Plan:
        """A training by a plan with these options and one of the seeds; its folder is named after what was asked for,
        whatever was chosen for the rest."""
        options, seed = {**self.base.options, **options}, self.base.seed + number
        asked = self.base if folder == CANDIDATES else on_all(self.base, plan.config.source)
        path = self.output / folder / replace(asked, options=options, seed=seed).slug
        return replace(plan, config=replace(plan.config, options=options, seed=seed, run_dir=path))

    def _take_over(self, plan: Plan) -> None:
        """With a validation split the candidates were trained on all images: such a run is not trained again."""
        final = _place(plan)
        trained = self.output / CANDIDATES / final.name
        if final.exists() or not RunFolder(trained).finished:
            return
        begun = final.with_name(f".{final.name}.part")  # a copy is there as a whole or not at all
        shutil.rmtree(begun, ignore_errors=True)
        shutil.copytree(trained, begun)
        os.replace(begun, final)

    def _train(self, plans: Sequence[Plan], tried: Options | set[str], show: ShownImages) -> list[Outcome]:
        def named(config: RunSpec) -> Reporter:
            # A run of Optuna's may have no others beside it to differ from.
            own = {name: value for name, value in config.options.items() if name in tried}
            return Distinct(self.reporter, options_text(own) if own else "")

        outcomes = fit_many(
            plans,
            sources=self.sources,
            width=self.budget.width,
            reporter_of=named,
            reporter=self.reporter,
            time_up=self.box.is_over,
            show=show,
        )
        raise_failures(outcomes)
        return outcomes


def _place(plan: Plan) -> Path:
    assert plan.config.run_dir is not None
    return plan.config.run_dir
