"""Ways to train photographs of the user's tried on held-out images; the best is then trained on all of them.

Each trial is a run of its own in the folder of the run, and what was decided is kept beside them: a call that was
stopped goes on where it was, and what is finished is not tried again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from procrustean.base.console import duration_text, number_of
from procrustean.base.epochs import EpochRecord
from procrustean.base.errors import ImagesChanged, RunError
from procrustean.base.files import OF_A_RUN, write_atomically
from procrustean.base.json_files import FORMAT, read_typed, typed_json
from procrustean.base.progress import PassingOn, Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.duplicates import fingerprints, near_duplicates
from procrustean.data.feature_pairs import pairs_by_features
from procrustean.data.image_groups import LikelyGroups
from procrustean.data.imageset import Splits
from procrustean.data.imbalance import Imbalanced
from procrustean.data.recipe import Recipe
from procrustean.data.sources import place_of
from procrustean.engine.frozen_features import FeatureStores
from procrustean.engine.linear_head import Chosen, chosen_strength
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.probabilities import Labels, Scores, calibrate, log_softmax
from procrustean.engine.stored_calibration import TrialScores, held_out_scores
from procrustean.engine.training import Interrupted
from procrustean.nets.classifier import Classifier
from procrustean.records.identity import Trial, changed_settings
from procrustean.records.run_folder import TRIALS, RunFolder
from procrustean.records.run_record import load_result
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice import Plan, holding_out, planned
from procrustean.runs.cost import TimeBox
from procrustean.runs.image_loading import Sources
from procrustean.runs.one_run import STOPPED_AMONG_MANY, Stopped, begin_or_go_on
from procrustean.runs.preparing import imbalanced, prepare
from procrustean.runs.ways import HELD_OUT, Agenda, Kind, Way, agenda, length_of_final, open_ways

#: What was decided, in the folder of trials; and what to do where it cannot be read.
DECIDED, DAMAGED = "decided.json", "train again with another --run-dir"
#: A trial whose balanced accuracy after this share of its epochs is so far below that of the best ends there. Half-way,
#: at the high rates of one cycle, networks that will win may still be 40 points behind.
LOOKED_AT, CLEARLY_BEHIND = 0.75, 0.3
#: How training images are changed where settings leave it open, and the same with mirrored ones.
PLAIN, MIRRORED = "resized_crop", "resized_crop+flip"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A way on the agenda, and what came of its trial."""

    kind: Kind
    config: RunSpec
    trial: Trial | None = None
    failed: str = ""  # why there is none


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The content of decided.json."""

    format: Literal[1] = FORMAT
    asked: RunSpec
    source_path: str | None
    ways: list[Kept]
    told: list[str]  # what was said of the agenda
    taken: Kind | None = None  # the best way, where several were tried
    chosen: RunSpec | None = None
    why: list[str] = []
    likely: LikelyGroups | None = None  # by features, of images of which nothing else says what belongs together


@dataclass(frozen=True)
class Tried:
    """A way after its trial."""

    way: Way
    scores: Scores  # of held-out images, [n, C], columns in the order of `classes`
    labels: Labels
    classes: tuple[str, ...]
    files: tuple[str, ...]
    seconds: float

    @property
    def name(self) -> str:
        return self.way.name

    def losses(self) -> tuple[Scores, Scores]:
        """Negative log-likelihood of each held-out image, with the best temperature, and its weight: classes count
        alike."""
        counts = np.bincount(self.labels, minlength=len(self.classes))
        found = calibrate(self.scores, self.labels, [1] * len(self.classes), corrected=True)
        losses = -log_softmax(found.scale * self.scores)[np.arange(len(self.labels)), self.labels]
        return losses, (1 / counts[self.labels]) / np.count_nonzero(counts)

    def balanced_accuracy(self) -> float:
        right = self.scores.argmax(axis=1) == self.labels
        return float(right @ self.losses()[1])

    @property
    def log_loss(self) -> float:
        return float(np.dot(*self.losses()))

    def record(self) -> Trial:
        return Trial(
            name=self.name,
            balanced_accuracy=self.balanced_accuracy(),
            log_loss=self.log_loss,
            held_out=len(self.labels),
            seconds=round(self.seconds, 1),
        )


def plan_of(
    config: RunSpec,
    folder: Path,
    sources: Sources,
    reporter: Reporter,
    *,
    splits: Splits | None = None,
    minutes: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    alone: bool = False,
) -> Plan:
    """The settings of a run with nothing left open: by trials of the ways to train that there are, or by advice.

    Args:
        config: the settings.
        folder: of the run; trials are kept in it.
        sources: loads the images.
        reporter: where progress goes.
        splits: the images, where the user has handed them over.
        minutes: what trials and training may take together.
        stop: whether to save and end.
        alone: whether this is a run by itself, which may be followed by a training on all images.

    Raises:
        Interrupted: where it was stopped.
    """
    ways = open_ways(config, sources) if splits is None else ()
    if not ways:
        return planned(config, splits=splits, load=sources)
    return _Trials(config, folder, sources, reporter, minutes, stop, alone=alone).plan(ways)


def plan_now(
    config: RunSpec,
    folder: Path,
    sources: Sources,
    reporter: Reporter,
    *,
    splits: Splits | None = None,
    minutes: float | None = None,
) -> Plan:
    """`plan_of` for a run alone, after which the network in use is trained on all images, also those set aside for
    tests. A signal ends the trials with `Stopped`, and what was tried is kept."""
    if splits is not None or not open_ways(config, sources):
        return planned(config, splits=splits, load=sources)
    with stop_on_signal(reporter.say) as stop:
        try:
            plan = plan_of(config, folder, sources, reporter, minutes=minutes, stop=stop, alone=True)
        except Interrupted:
            raise Stopped(STOPPED_AMONG_MANY, stop.exit_code) from None
        if stop():
            raise Stopped(STOPPED_AMONG_MANY, stop.exit_code)
        return replace(plan, final=plan.splits is not None and plan.splits.aside is not None)


def with_likely(splits: Splits, run: Path) -> Splits:
    """The images of a run, with what its trials have found to belong together where nothing else says what does."""
    path = run / TRIALS / DECIDED
    if splits.train.groups or splits.likely is not None or not path.is_file():
        return splits
    return replace(splits, likely=read_typed(path, Decided, DAMAGED).likely)


class _Trials:
    """The trials of a run.

    Args:
        config, folder, sources, reporter, minutes, stop, alone: as of `plan_of`.
    """

    def __init__(
        self,
        config: RunSpec,
        folder: Path,
        sources: Sources,
        reporter: Reporter,
        minutes: float | None,
        stop: Callable[[], bool],
        *,
        alone: bool,
    ) -> None:
        self._config, self._folder, self._sources, self._reporter = config, folder / TRIALS, sources, reporter
        self._minutes, self._box, self._run, self._stop = minutes, TimeBox(minutes), folder, stop
        self._alone = alone

    def plan(self, ways: tuple[Way, ...]) -> Plan:
        kept = self._read()
        if kept is None:
            on = agenda(self._config, ways, self._sources, self._minutes, alone=self._alone)
            kept = self._decided_on(on)
        if kept.chosen is None:
            for line in kept.told:
                self._reporter.say_once(line)
            kept = self._tried(kept)
        return self._plan(kept)

    def _decided_on(self, on: Agenda) -> Decided:
        ways, likely = on.ways, None
        if ways[0].kind == "features":
            ways, likely = self._with_head(ways), self._likely(ways[0].config)
        kept = Decided(
            asked=self._config,
            source_path=place_of(self._config.source),
            ways=[Kept(kind=way.kind, config=way.config) for way in ways],
            told=[on.text()],
            likely=likely,
        )
        if len(ways) == 1:
            only, why = holding_out(ways[0].config, self._sources(ways[0].config))
            kept = msgspec.structs.replace(kept, chosen=only, why=why)
        self._reporter.say_once(on.text())
        self._write(kept)
        return kept

    def _tried(self, kept: Decided) -> Decided:
        """Everything with the trials that are still to be made, and the choice."""
        found: list[Tried] = []
        for place, each in enumerate(kept.ways):
            if each.failed:
                continue
            best = max((one.balanced_accuracy() for one in found), default=0.0)
            try:
                result = self._trial(Way(each.kind, each.config), best)
            except Interrupted:
                raise
            except Exception as error:  # another way is taken
                if not found and not any(not later.failed for later in kept.ways[place + 1 :]):
                    raise  # there is none
                each = msgspec.structs.replace(each, failed=str(error) or type(error).__name__)
                self._reporter.warn(f"{Way(each.kind, each.config).name} could not be tried: {each.failed}")
            else:
                if isinstance(result, str):
                    each = msgspec.structs.replace(each, failed=result)
                else:
                    found.append(result)
                    each = msgspec.structs.replace(each, trial=result.record())
            kept = msgspec.structs.replace(kept, ways=[*kept.ways[:place], each, *kept.ways[place + 1 :]])
            self._write(kept)
        best_way, text = better(found)
        told = "; ".join(
            f"{one.name}: balanced accuracy {100 * one.balanced_accuracy():.1f} %, log loss {one.record().log_loss:.3f}"
            for one in found
        )
        failed = "".join(f"; {Way(e.kind, e.config).name}: {e.failed}" for e in kept.ways if e.failed)
        why = [
            f"tried on {len(best_way.labels)} held-out images: {told}{failed}",
            f"{best_way.name}: {text}; now it is trained on all training images",
        ]
        chosen, shorter = self._in_time(best_way)
        chosen = replace(chosen, hold_out=self._config.hold_out or 0)
        kept = msgspec.structs.replace(kept, taken=best_way.way.kind, chosen=chosen, why=[*why, *shorter])
        self._write(kept)
        return kept

    def _in_time(self, best: Tried) -> tuple[RunSpec, list[str]]:
        """The settings of the training on all images, shorter where the time that was promised asks for it."""
        config = best.way.config
        if self._box.deadline is None or best.way.kind == "features" or self._config.epochs is not None:
            return config, []
        trainings = 1 + (length_of_final(config, self._sources) if self._alone else 0)
        needed, left = trainings * best.seconds / (1 - HELD_OUT), self._box.deadline - time.monotonic()
        if needed <= left or config.epochs is None:
            return config, []
        epochs = max(1, int(config.epochs * left / needed))
        text = f"{number_of(epochs, 'epoch')}, not {config.epochs}, for which {self._minutes:g} min are too short"
        return replace(config, epochs=epochs, evaluate_every=max(1, epochs // 4)), [text]

    def _plan(self, kept: Decided) -> Plan:
        assert kept.chosen is not None
        config = replace(kept.chosen, run_dir=self._run, source=self._config.source)
        splits = with_likely(self._sources(config), self._run)
        trials = tuple(each.trial for each in kept.ways if each.trial is not None)
        scores = None
        if kept.taken is not None:
            trial = self._folder / kept.taken
            data = load_result(trial).record.data
            if data.source_hash != Plan(config, splits).source_hash:
                raise ImagesChanged(
                    f"{self._folder} has trials on other images than {config.source} holds now; put those back, or "
                    "choose another --run-dir"
                )
            if not config.hold_out:
                scores = TrialScores(*held_out_scores(RunFolder(trial)), tuple(data.classes))
        return Plan(config, splits, tuple(kept.why), trials=trials, scores=scores)

    def _with_head(self, ways: tuple[Way, ...]) -> tuple[Way, ...]:
        """The ways with what the features tell: how much a head on them is penalised, and whether mirrored images
        help, by the images that a trial would train on."""
        config, asked = ways[0].config, self._config
        plain = asked.augment or PLAIN
        judged = self._head_of(replace(config, augment=plain))
        augment = plain
        if asked.augment is None:
            mirrored = self._head_of(replace(config, augment=MIRRORED))
            gain, error = paired(
                judged.losses.double().cpu().numpy(),
                mirrored.losses.double().cpu().numpy(),
                judged.weights.double().cpu().numpy(),
            )
            how = f"log loss {'lower' if gain > 0 else 'higher'} by {abs(gain):.3f} ± {error:.3f}"
            if gain > error:
                judged, augment = mirrored, MIRRORED
            self._reporter.say_once(f"mirrored images{' not' * (augment == PLAIN)} taken: {how} with them, on features")
        images = len(self._sources(config).train)
        decay = float(f"{1 / (judged.strength * images):.3g}")  # of a mean over as many images, |W|^2 / (2 C n)
        found = [replace(way, config=replace(way.config, augment=augment)) for way in ways]
        if asked.weight_decay is None:
            found[0] = replace(found[0], config=replace(found[0].config, weight_decay=decay))
        return tuple(found)

    def _head_of(self, config: RunSpec) -> Chosen:
        prepared, net, stores = self._feature_stores(config)
        train = prepared.data.train
        features = stores.training(train)
        shown = net.features(features.features.flatten(0, 1)).view(features.features.shape)
        groups = np.unique(train.groups, return_inverse=True)[1] if train.groups else np.arange(len(train))
        return chosen_strength(shown, features.labels, groups)

    def _likely(self, config: RunSpec) -> LikelyGroups | None:
        """The photographs of all splits that belong together by their features, where nothing else says what does."""
        splits = self._sources(config)
        if splits.train.groups or splits.likely is not None:
            return None
        sides = {"train": splits.train, "held_out": splits.val, "test": splits.test if splits.has_test else None}
        there = {name: images for name, images in sides.items() if images is not None}
        _, _, stores = self._feature_stores(config)
        shown = [stores.evaluation(images, name).features[:, 0].cpu().numpy() for name, images in there.items()]
        images = there.values()
        return pairs_by_features(
            np.concatenate(shown),
            np.concatenate([side.labels for side in images]),
            near_duplicates(np.concatenate([fingerprints(side.images) for side in images])),
            [name for side in images for name in side.names],
        )

    def _feature_stores(self, config: RunSpec) -> tuple[Prepared, Classifier, FeatureStores]:
        prepared = self._prepared(self._as_trial(config))
        net = prepared.build_net().to(prepared.placement.device)
        stores = prepared.training_stores(net, self._reporter)
        assert isinstance(stores, FeatureStores)
        return prepared, net, stores

    def _as_trial(self, config: RunSpec) -> RunSpec:
        """The settings of a trial: on held-out images, and looked at late and in the end."""
        hold_out = 0 if self._sources(config).val is not None else HELD_OUT
        late = max(1, math.ceil(LOOKED_AT * (config.epochs or 1)))
        return replace(config, hold_out=hold_out, evaluate_every=late, probes=False, probe_every=None, features_at=())

    def _prepared(
        self, config: RunSpec, made: tuple[Splits, Imbalanced] | None = None, began: Recipe | None = None
    ) -> Prepared:
        return prepare(config, splits=self._sources(config), made=made, say=self._reporter.say, began=began)

    def _trial(self, way: Way, best: float) -> Tried | str:
        """What a way came to, or why it was stopped early."""
        path = self._folder / way.kind
        config = replace(self._as_trial(way.config), run_dir=path)
        splits, data = made = imbalanced(config, self._sources(config))
        plan = Plan(config, splits, made=made)
        self._reporter.say(f"trying {way.text}")
        began = time.monotonic()
        watch = _Watch(self._reporter, best)
        run = begin_or_go_on(
            plan,
            path,
            lambda began: self._prepared(config, made, began),
            watch,
            stop=lambda: self._stop() or watch.behind is not None or self._box.is_over(),
            show="held_out",
        )
        try:
            if run is not None:
                run.to_end()
        except Interrupted:
            if self._stop():
                raise
            return watch.behind or f"stopped after {duration_text(time.monotonic() - began)}, when the time was up"
        record = load_result(path).record
        scores, labels = held_out_scores(RunFolder(path))
        seconds = time.monotonic() - began if run is not None else sum(record.seconds.values())
        assert data.held_out is not None
        return Tried(way, scores, labels, tuple(record.data.classes), data.held_out.names, seconds)

    def _read(self) -> Decided | None:
        path = self._folder / DECIDED
        if not path.is_file():
            return None
        kept = read_typed(path, Decided, DAMAGED)
        if changed_settings(kept.asked, self._config, kept.source_path):
            raise RunError(f"{self._run} holds trials with other settings; choose another --run-dir")
        return kept

    def _write(self, kept: Decided) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / DECIDED, typed_json(kept), OF_A_RUN)


class _Watch(PassingOn):
    """Sees when a trial is clearly behind the best one before it.

    Args:
        inner: where progress goes.
        best: balanced accuracy of the best trial so far.
    """

    def __init__(self, inner: Reporter, best: float) -> None:
        super().__init__(inner)
        self._best = best
        self.behind: str | None = None

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        super().epoch_done(name, epoch, record)
        if record.held_out is not None and record.held_out.balanced_accuracy < self._best - CLEARLY_BEHIND:
            reached = 100 * record.held_out.balanced_accuracy
            self.behind = f"stopped after epoch {epoch + 1}, with a balanced accuracy of {reached:.1f} %"


def better(tried: list[Tried]) -> tuple[Tried, str]:
    """The way with the lowest log loss, of equal ones the first, and why.

    A head on frozen features is taken only where that of the others is higher by more than a standard error: of the
    images that were held out, which the final training has too, the others learn more than a head alone.
    """
    heads = [one for one in tried if one.way.kind == "features"]
    others = [one for one in tried if one not in heads]
    ranked = sorted(others or heads, key=lambda one: one.log_loss)  # of equal ones the first stays the first
    best, rivals = ranked[0], heads if heads and others else ranked[1:]
    if not rivals:
        return best, "there is nothing to compare it with"
    gain, error = gain_of(best, rivals[0])
    told = f"log loss {'lower' if gain > 0 else 'higher'} by {abs(gain):.2f} ± {error:.2f}"
    if gain > error:
        return rivals[0], f"its {told} than that of {best.name}"
    little = ", too little for what learns less from more images" if gain > 0 else ""
    return best, f"with {rivals[0].name} {told}{little}"


def gain_of(first: Tried, other: Tried) -> tuple[float, float]:
    """By how much the log loss of the other way is lower, and the standard error of that.

    Ways hold out the same images, image by image; only where files look alike at one size and not at another they
    may differ.
    """
    (before, weights), (after, other_weights) = first.losses(), other.losses()
    if first.files == other.files:
        return paired(before, after, weights)
    spread = [float((w**2) @ (losses - losses @ w) ** 2) for losses, w in ((before, weights), (after, other_weights))]
    return float(before @ weights - after @ other_weights), math.sqrt(sum(spread))


def paired(before: Scores, after: Scores, weights: Scores) -> tuple[float, float]:
    """The weighted mean by which the losses of the same images fall, and its standard error."""
    differences = before - after
    gain = float(differences @ weights)
    return gain, math.sqrt(float((weights**2) @ (differences - gain) ** 2))
