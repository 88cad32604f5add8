"""A run that exists: made ready to go on or be used, refused where it is no longer the same, its network loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from procrustean.base.errors import ConfigError, ImagesChanged, RunError
from procrustean.base.own_code import is_usable
from procrustean.data.imageset import Splits
from procrustean.data.sources import load_source
from procrustean.engine.make_record import OF_THE_METHOD, identity_of
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.stage_order import reshape_for
from procrustean.engine.training import HELD_OUT_WEIGHTS
from procrustean.nets.classifier import Classifier
from procrustean.records.identity import Identity, change_since
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import RunSpec
from procrustean.runs.image_loading import source_settings
from procrustean.runs.preparing import prepare


def check_identity(
    run: Path,
    identity: Identity,
    prepared: Prepared,
    purpose: str = "go on",
    besides: Collection[str] = (),
) -> None:
    """Refuse a run whose data, classes or defaults have changed since it began.

    Args:
        run: where it is.
        identity: what it began with.
        prepared: the run as it would be now.
        purpose: what it cannot do then, in words.
        besides: parts of the identity that make no difference to that.
    """
    if prepared.pretrained is None and prepared.config.pretrained:
        besides = (*besides, "pretrained")  # a trained network no longer needs the weights it started from
    change = change_since(identity, identity_of(prepared), besides)
    if change is None:
        return
    if change.of_images:
        raise ImagesChanged(
            f"{run} cannot {purpose}: its images have changed ({change.text}). Put those back that it began with, or "
            "train on those that are there now in another folder"
        )
    raise RunError(f"{run} cannot {purpose}: its settings or the library's defaults have changed ({change.text})")


def load_run(
    run: str | Path,
    *,
    weights: str = "last",
    splits: Splits | None = None,
    source: str | os.PathLike[str] | None = None,
    anywhere: bool = False,
    network_alone: bool = False,
) -> tuple[Prepared, Classifier]:
    """A finished run's data and trained network, on its device, in evaluation mode.

    Args:
        run: run directory.
        weights: "last" for those of the last epoch, "held_out" for those chosen on the held-out set.
        splits: the data, for a run that was trained on a `Splits`.
        source: where the images are now, if they are no longer where they were.
        anywhere: take the device of this machine where the run was trained on another kind of machine.
        network_alone: nothing but the network is wanted: where it is one that any method may have trained, the file of
            a method of the user's is not needed, and ERM stands for it.
    """
    files = {"last": "model.safetensors", "held_out": HELD_OUT_WEIGHTS}
    files |= {kind: f"{kind}.safetensors" for kind in ("ema", "swa")}
    if weights not in files:
        raise ConfigError(f"weights = {weights!r} received; accepted: {', '.join(map(repr, files))}")
    directory, config, identity = RunFolder.open(Path(run))
    if anywhere:
        config = replace(config, device="auto", engine="auto", kernels="auto", precision=identity.precision)
    stands_in = network_alone and not is_usable(config.method) and identity.plain_network
    if stands_in:
        config = replace(config, method="erm", options={}, drw=False)
    path = directory.file(files[weights])
    if not path.exists():
        option = {"held_out": "--hold-out", "ema": "--average ema", "swa": "--average swa"}.get(weights)
        reason = "is not finished" if option is None else f"was trained without {option}"
        raise RunError(f"{run} has no {path.name}: it {reason}")
    prepared = prepare_again(directory, config, identity, splits or moved(config, source), to_train=False)
    check_identity(Path(run), identity, prepared, "be used", besides=OF_THE_METHOD if stands_in else ())
    net = prepared.build_net()
    for number in range(len(prepared.method.stages)):
        reshape_for(net, prepared.method, number, config.seed)
    state = directory.load_weights(path.name)
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise RunError(f"{path} is damaged or of another network ({error})") from error
    return prepared, net.to(prepared.placement.device).eval()


def moved(
    config: RunSpec, source: str | os.PathLike[str] | None, say: Callable[[str], None] = lambda text: None
) -> Splits | None:
    """The images of a run from another place than it remembers."""
    return None if source is None else load_source(**{**source_settings(config), "source": source}, say=say)


def prepare_again(
    directory: RunFolder,
    config: RunSpec,
    identity: Identity,
    splits: Splits | None,
    say: Callable[[str], None] = lambda text: None,
    *,
    to_train: bool = True,
) -> Prepared:
    """Prepare a run that exists; one that was trained on arrays needs them handed in again."""
    remembered = directory.beginning().source_path
    if splits is None and remembered is not None:
        if not Path(remembered).exists():
            raise RunError(
                f"the images of {directory.path} are no longer at {remembered}; put them back. Resume and evaluate can "
                "also be told where they are now: --source PATH"
            )
        splits = load_source(**{**source_settings(config), "source": remembered}, say=say)
    try:
        return prepare(config, splits=splits, say=say, to_train=to_train, began=identity.recipe)
    except ConfigError as error:
        if splits is None and "source" in str(error):
            raise ConfigError(
                f"{error} If {directory.path} was trained on arrays, give them again: splits=..."
            ) from error
        raise
