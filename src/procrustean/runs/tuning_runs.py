"""The runs of a search: candidates on part of the training images, then the chosen options on all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from statistics import median
from typing import Any

from procrustean.base.errors import Diverged, RunError
from procrustean.base.own_code import failure_text
from procrustean.base.progress import Distinct, Reporter
from procrustean.records.finding_runs import CANDIDATES, CONFIG_FILE
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice import planned
from procrustean.runs.choosing import Score, options_text, score_of, voting_counts
from procrustean.runs.cost import TimeBox
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import Outcome, fit_many, outcome_of
from procrustean.runs.one_run import ShownImages, run_directory_of
from procrustean.runs.option_spaces import (
    AFTER_TRAINING,
    Options,
)
from procrustean.runs.tuning_candidates import (
    check_final,
    check_options,
    check_runs,
    is_default,
)
from procrustean.runs.tuning_study import (
    Budget,
    Search,
    write_down,
)


class TuningRuns:
    """The runs of one search."""

    def __init__(self, search: Search, output: Path, budget: Budget, reporter: Reporter, box: TimeBox) -> None:
        self.search, self.output, self.budget, self.reporter, self.box = search, output, budget, reporter, box
        self.base, self.final_source = search.base, search.final_source
        self.elsewhere = self.final_source != self.base.source
        self.sources = Sources(reporter)
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
