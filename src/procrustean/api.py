"""Train, resume and evaluate from Python; the command line is a thin layer over these functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .config import RunConfig
from .console import Reporter, SilentReporter
from .counts import Kind, imbalance_kind
from .data.imageset import Splits
from .data.imbalance import Imbalanced, build
from .data.sources import load_source
from .engine.device import Placement, own_stream, place
from .engine.engines import Engine, choose_engine
from .engine.images import ImageStore, channel_statistics
from .engine.record import identity_of, make_result
from .engine.run_directory import RunDirectory
from .engine.stopping import stop_on_signal
from .engine.training import HELD_OUT_WEIGHTS, Interrupted, Training, reshape_for, stage_epochs
from .errors import ConfigError, RunError
from .methods import checked_options, make_method, option_defaults
from .methods.base import Method
from .nets import build_net, check_net, layers_of
from .nets.classifier import Classifier
from .recipes import Recipe, recipe_for
from .types import Problem

#: Networks so small that float32 is faster than bf16 on a CPU.
_SMALL_NETS = ("small",)


class Stopped(RunError):
    """The run was asked to stop; its state is saved."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class FinishedRun:
    """A trained network with its record."""

    path: Path  # the run directory
    result: dict[str, Any]  # what result.json holds
    net: Classifier

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics of the last epoch on the test set: the headline."""
        metrics: dict[str, Any] = self.result["selections"]["last"]["metrics"]
        return metrics

    def __repr__(self) -> str:
        name = self.metrics["headline"]
        value = 100 * self.metrics[name]
        return f"FinishedRun({self.result['label']}, {name.replace('_', ' ')} {value:.1f} %, {str(self.path)!r})"


@dataclass(frozen=True)
class Prepared:
    """A run whose settings are resolved and whose data are loaded."""

    config: RunConfig
    data: Imbalanced
    splits: Splits
    method: Method
    options: dict[str, Any]
    recipe: Recipe
    placement: Placement
    engine: Engine

    def build_net(self) -> Classifier:
        """The network with its initial weights."""
        return build_net(
            self.recipe.net,
            channels=self.data.train.images.shape[3],
            classes=len(self.data.train.classes),
            seed=self.config.seed,
            head=self.method.head,
        )


def fit(
    source: str | Splits | RunConfig,
    *,
    reporter: Reporter | None = None,
    **settings: Any,
) -> FinishedRun:
    """Train a network and return it with its record.

    Args:
        source: a data set's name, a path, a `Splits` of your own arrays, or a complete `RunConfig`.
        reporter: where progress goes; silent by default.
        settings: fields of `RunConfig` (method, imbalance, rho, epochs, seed, run_dir, ...).

    >>> run = fit("digits", imbalance="step", rho=20, method="mfw", epochs=1)  # doctest: +SKIP
    """
    reporter = reporter or SilentReporter()
    splits = source if isinstance(source, Splits) else None
    if isinstance(source, RunConfig):
        config = RunConfig.from_json({**source.to_json(), **settings}, origin="the call of fit")
    else:
        config = RunConfig.from_json(
            {"source": splits.name if splits else source, **settings}, origin="the call of fit"
        )
    prepared = prepare(config, splits=splits, say=reporter.say)
    path = config.run_dir or Path("runs") / config.slug
    directory = RunDirectory.create(path, config, identity_of(prepared))
    return _train(prepared, directory, reporter)


def resume(run: str | Path, *, splits: Splits | None = None, reporter: Reporter | None = None) -> FinishedRun:
    """Go on with an interrupted run from its last checkpoint, to the same result it would have had."""
    reporter = reporter or SilentReporter()
    directory, config, identity = RunDirectory.open(Path(run))
    if directory.finished:
        raise RunError(f"{run} is finished already; see: procrustean compare {run}")
    prepared = _prepare_again(run, config, splits, reporter.say)
    check_identity(Path(run), identity, prepared)
    return _train(prepared, directory, reporter, resume=True)


def check_identity(run: Path, identity: Mapping[str, Any], prepared: Prepared, purpose: str = "go on") -> None:
    """Refuse a run whose data, classes or defaults have changed since it began."""
    changed = {k: (identity.get(k), v) for k, v in identity_of(prepared).items() if identity.get(k) != v}
    if changed:
        listed = "; ".join(f"{k}: {_short(a)} when it began, {_short(b)} now" for k, (a, b) in changed.items())
        raise RunError(f"{run} cannot {purpose}: the data or the library's defaults have changed ({listed})")


def evaluate(run: str | Path, *, weights: str = "last", splits: Splits | None = None) -> dict[str, Any]:
    """Test a finished run's network again.

    Args:
        run: run directory.
        weights: "last" for those of the last epoch, "held_out" for those chosen on the held-out set.
        splits: the data, for a run that was trained on a `Splits`.
    """
    prepared, net = load_run(run, weights=weights, splits=splits)
    from .engine.evaluate import evaluate_net

    mean, std = prepared.recipe.normalisation
    images = ImageStore(prepared.data.test, device=prepared.placement.device, mean=mean, std=std)
    counts = [int(n) for n in prepared.data.counts]
    return evaluate_net(net, images, counts, prepared.placement.low_precision)


def load_run(run: str | Path, *, weights: str = "last", splits: Splits | None = None) -> tuple[Prepared, Classifier]:
    """A finished run's data and trained network, on its device, in evaluation mode."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = {"last": "model.safetensors", "held_out": HELD_OUT_WEIGHTS}
    if weights not in files:
        raise ConfigError(f"weights = {weights!r} received; accepted: 'last', 'held_out'")
    directory, config, identity = RunDirectory.open(Path(run))
    path = directory.file(files[weights])
    if not path.exists():
        reason = "was trained without --hold-out" if weights == "held_out" else "is not finished"
        raise RunError(f"{run} has no {path.name}: it {reason}")
    prepared = _prepare_again(run, config, splits)
    check_identity(Path(run), identity, prepared, "be used")
    net = prepared.build_net()
    for number in range(len(prepared.method.stages)):
        reshape_for(net, prepared.method, number, config.seed)
    try:
        net.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        raise RunError(f"{path} is damaged or of another network ({error})") from error
    return prepared, net.to(prepared.placement.device).eval()


def _prepare_again(
    run: str | Path, config: RunConfig, splits: Splits | None, say: Callable[[str], None] = lambda text: None
) -> Prepared:
    """Prepare a run that exists; one that was trained on arrays needs them handed in again."""
    try:
        return prepare(config, splits=splits, say=say)
    except ConfigError as error:
        if splits is None and "source" in str(error):
            raise ConfigError(f"{error} If {run} was trained on arrays, give them again: splits=...") from error
        raise


def prepare(
    config: RunConfig, *, splits: Splits | None = None, say: Callable[[str], None] = lambda text: None
) -> Prepared:
    """Load the data and resolve every setting; all that can be wrong with them is said here, before training."""
    options = _options(config)
    if config.net is not None:
        check_net(config.net)
    if splits is None:
        splits = load_source(config.source, data_dir=config.data_dir, image_size=config.image_size, say=say)
    if splits.note:
        say(splits.note)
    data = build(
        splits,
        imbalance=config.imbalance,
        rho=config.rho,
        data_seed=config.data_seed,
        hold_out=config.hold_out,
    )
    if data.left_out_classes:
        say(f"too few images to hold any out: {', '.join(data.left_out_classes)}")
    # A folder of the user's that happens to be called cifar10 is not CIFAR-10.
    known = splits.name if splits.name == config.source else ""
    recipe = recipe_for(known)
    layers = layers_of(config.net or recipe.net)
    problem = Problem(
        counts=tuple(int(n) for n in data.counts),
        kind=imbalance_kind([int(n) for n in data.counts]) if data.kind == "natural" else cast(Kind, data.kind),
        source=known,
        layers=layers.groups,
        second_group=layers.second_group,
    )
    method = make_method(config.method, problem, options)
    recipe = _resolved(recipe, config, method)
    if recipe.mean is None or recipe.std is None:
        mean, std = channel_statistics(data.train)
        recipe = recipe.changed({"mean": mean, "std": std})
    placement = place(config.device, config.precision, small=recipe.net in _SMALL_NETS)
    engine = choose_engine(config.engine, config.kernels, placement, method)
    prepared = Prepared(config, data, splits, method, options, recipe, placement, engine)
    stage_epochs(method, recipe.epochs)  # refuses too few
    _check_batches(recipe, data.train.images.shape, layers_of(recipe.net).shrinks)
    _check_layers(prepared)
    return prepared


def _check_batches(recipe: Recipe, shape: tuple[int, ...], shrinks: int) -> None:
    images, height, width = shape[:3]
    alone = images % min(recipe.batch_size, images) == 1 or images == 1
    if alone and max(height, width) <= shrinks:
        raise ConfigError(
            f"{images} training images in batches of {recipe.batch_size} leave one image of {width} x {height} pixels "
            "alone in a batch, and batch normalisation cannot normalise a single value; choose another --batch-size"
        )


def _check_layers(prepared: Prepared) -> None:
    """Refuse a layer that the network does not have before anything is written."""
    net = prepared.build_net()
    for number, stage in enumerate(prepared.method.stages):
        reshape_for(net, prepared.method, number, prepared.config.seed)
        stage.objective.bind(net)
        stage.objective.unbind()


def recipe_of(config: RunConfig) -> Recipe:
    """The recipe a run will have, as far as it is known without its data; checks method, options and network."""
    # A recipe depends on the data set and the method, not on the counts: any will do.
    problem = Problem(counts=(2, 1), kind="step", source=config.source)
    method = make_method(config.method, problem, _options(config))
    if config.net is not None:
        check_net(config.net)
    return _resolved(recipe_for(config.source), config, method)


def _options(config: RunConfig) -> dict[str, Any]:
    given = checked_options(config.method, {**config.options, **({"drw": True} if config.drw else {})})
    return {**option_defaults(config.method), **given}


def _resolved(recipe: Recipe, config: RunConfig, method: Method) -> Recipe:
    recipe = recipe.changed(method.own if config.recipe == "own" else method.paper)
    chosen = {name: getattr(config, name) for name in ("net", "epochs", "batch_size", "lr", "weight_decay")}
    return recipe.changed({name: value for name, value in chosen.items() if value is not None})


def _train(prepared: Prepared, directory: RunDirectory, reporter: Reporter, *, resume: bool = False) -> FinishedRun:
    with stop_on_signal(reporter.say) as stop:
        run = OngoingRun(prepared, directory, reporter, stop=stop, resume=resume)
        try:
            with own_stream(prepared.placement.device):
                for _ in run.turns():
                    pass
        except Interrupted:
            raise Stopped(
                f"stopped and saved; go on with: procrustean resume {directory.path}", stop.exit_code
            ) from None
    assert run.finished is not None
    return run.finished


class OngoingRun:
    """A run in progress: `turns` trains it to the end, yielding between chunks of steps, and leaves `finished`."""

    def __init__(
        self,
        prepared: Prepared,
        directory: RunDirectory,
        reporter: Reporter,
        *,
        stop: Callable[[], bool] = lambda: False,
        resume: bool = False,
    ) -> None:
        self.prepared, self.directory, self.reporter = prepared, directory, reporter
        self.stop, self.resume = stop, resume
        self.finished: FinishedRun | None = None

    def turns(self) -> Iterator[None]:
        prepared, config, label = self.prepared, self.prepared.config, self.prepared.method.label
        engine = prepared.engine
        self.reporter.say(
            f"{label}: {prepared.placement.reason}; {engine.name}: {engine.reason}{', own kernels' * engine.kernels}"
        )
        net = prepared.build_net()
        training = Training(
            net=net,
            method=prepared.method,
            data=prepared.data,
            recipe=prepared.recipe,
            seed=config.seed,
            placement=prepared.placement,
            engine=engine,
            evaluate_every=config.evaluate_every or max(1, prepared.recipe.epochs // 100),
            track_training=config.track_training,
            checkpoint_every=config.checkpoint_every,
            directory=self.directory,
            reporter=self.reporter,
            stop_requested=self.stop,
        )
        if self.resume:
            training.restore()
        yield from training.run()
        self.directory.save_weights("model.safetensors", net.state_dict())
        result = make_result(prepared, training)
        self.directory.finish(result)
        self.finished = FinishedRun(self.directory.path, result, net.eval())
        metrics = self.finished.metrics
        self.reporter.run_finished(label, f"{metrics[metrics['headline']]:.1%} on the test set")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
