"""The model card: data, counts, method, results per class, limits, in words for whoever is handed the model."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.balance.metrics import FEW_TO_JUDGE, Metrics
from procrustean.base.console import number_of
from procrustean.base.escaping import markdown
from procrustean.base.own_code import short_name
from procrustean.data.imageset import NO_TEST
from procrustean.deploy.cautions import (
    UNMEASURED,
    cautions,
    frequencies_unknown,
    never_held_out,
    sentence,
)
from procrustean.deploy.export_formats import FILES, Format
from procrustean.deploy.load_program import USE
from procrustean.deploy.model import ModelSpec
from procrustean.engine.probabilities import Prior
from procrustean.records.run_record import RunRecord
from procrustean.records.several_runs import Compared, Comparison

FEW_TRAINED = 20

#: Said of an export with class frequencies built in.
WITHOUT_PRIOR = (
    "These results are **without** the class frequencies that are built in here, and what they change is not measured."
)

#: Of a record: for which class frequencies, the error before and after calibration.
CALIBRATION_ERRORS = (
    ("the class frequencies that the scores stand for", "ece_before", "ece_default"),
    ("those of the held-out images", "ece_before", "ece"),
    ("equally frequent classes", "ece_balanced_before", "ece_balanced"),
)


def model_card(
    spec: ModelSpec,
    record: RunRecord,
    *,
    tested: RunRecord,
    whose: str,
    form: Format,
    prior: str | None,
    frequencies: Prior | None,
    difference: float,
    why: list[str],
    comparison: Comparison | None,
) -> str:
    """Markdown.

    Args:
        spec: the model.
        record: of its run.
        tested: of the run whose results it is judged by.
        whose: what to know of that run, where it is another.
        form: in which it is exported.
        prior: name of the class frequencies built in, if any.
        frequencies: these themselves, [C].
        difference: largest difference of a probability that the check of the export found.
        why: reasons for settings that were chosen automatically.
        comparison: of methods on the held-out images, if it was chosen by one.
    """
    data = record.data
    sections = [
        f"# {markdown(data.source)}: {len(spec.classes)} classes, {markdown(spec.label)}",
        f"An image classifier, {markdown(short_name(spec.net))} with {record.method.parameters:,} parameters, trained "
        f"by procrustean {markdown(record.environment.procrustean)} on {data.train} images. On export its "
        f"probabilities differed from those of the trained network by at most {difference:.1e}.",
        "## Use",
        _use(form),
        "## Results",
        sentence(whose) if whose else "",
        _results(tested),
        "" if frequencies is None else WITHOUT_PRIOR,
        "## Data",
        f"{data.train} training images, {tested.data.held_out} held-out and {tested.data.test} test images"
        f"{' among them' if whose else ''}, of {markdown(data.source)}; ratio of the largest to the smallest class "
        f"{max(data.counts) / min(data.counts):.4g}. Hash of the images {markdown(data.source_hash[:16])}, of "
        f"the split {markdown(data.split_hash[:16])}.",
        "## Training",
        _training(spec, record),
        "" if comparison is None else _compared(comparison),
        "\n".join(f"- {markdown(reason)}" for reason in why),
        "## Images and probabilities",
        _preparation(spec, form),
        _probabilities(spec, prior),
        _calibration_errors(tested),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(spec, tested, frequencies)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _use(form: Format) -> str:
    kinds = {
        "torch": " The program in it was exported as it is used: it needs no `eval()`, and raises an error on it.",
    }
    return (
        f"`python load.py IMAGE ...` classifies images with `{FILES[form]}`.{kinds.get(form, '')} From Python, where "
        f"this folder is the current one or on the path, images being paths or Pillow images:\n\n```python\n{USE}```"
        "\n\n`python load.py --thresholds FILE IMAGE ...` also names the classes whose probability reaches their "
        "number in a file that `procrustean thresholds FOLDER --precision 0.95 --output FILE` made from this folder."
    )


def _training(spec: ModelSpec, record: RunRecord) -> str:
    recipe = record.recipe
    return (
        f"{markdown(spec.label)}, {number_of(recipe.epochs, 'epoch')} in batches of {recipe.batch_size}, learning rate "
        f"{recipe.lr:g}, {markdown(recipe.augment)}, seed {spec.seed}, on "
        f"{markdown(record.environment.machine)}. These are the weights of the last epoch."
    )


def _preparation(spec: ModelSpec, form: Format) -> str:
    height, width, channels = spec.image_shape
    seen, side = "", spec.evaluation_crop
    if spec.enlarged is not None:
        seen = f", which are enlarged to {side} x {side}"
    elif side is not None:
        seen = f", of which the middle {side} x {side} are shown to it"
    latter = "the latter" if spec.enlarged is None else "all from the enlarging on"
    by_itself = "" if form == "safetensors" else f"; the exported network does {latter} itself"
    return (
        f"Images are turned upright, converted to {'RGB' if channels == 3 else 'grey'} and resized to {width} x "
        f"{height} pixels{seen}. Pixels are divided by 255, less the mean {_numbers(spec.mean)}, divided by "
        f"{_numbers(spec.std)}{by_itself}."
    )


def _results(record: RunRecord) -> str:
    classes, note = record.data.classes, record.data.note
    metrics, counts = record.selections.last.metrics, record.data.counts
    tested = _tested(metrics, len(counts))
    no_test = f"images. **This is not a test**: {markdown(note)}."
    which = no_test if note.startswith(NO_TEST) else "test images that were neither trained on nor chosen on."
    lines = [
        f"Balanced accuracy {100 * metrics.balanced_accuracy:.1f} %, accuracy {100 * metrics.accuracy:.1f} % on "
        f"{metrics.images} {which}{_untested(classes, metrics)}\n",
        "| class | training images | test images | recall % | precision % |",
        "|---|---:|---:|---:|---:|",
    ]
    for c, name in enumerate(classes):
        shown = [_percent(metrics.recall[c]), _percent(metrics.precision[c])]
        lines.append(f"| {markdown(name)} | {counts[c]} | {tested[c]} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _untested(classes: Sequence[str], metrics: Metrics) -> str:
    """A sentence about classes without test images, of which the balanced accuracy says nothing."""
    names = [markdown(name) for name, recall in zip(classes, metrics.recall, strict=True) if recall is None]
    return f" There are none of {', '.join(names)}, so the balanced accuracy is of the other classes." if names else ""


def _tested(metrics: Metrics, classes: int) -> list[str]:
    confusion = metrics.confusion
    return ["?"] * classes if confusion is None else [str(sum(row)) for row in confusion]


def _compared(comparison: Comparison) -> str:
    shown = "; ".join(f"{markdown(method.name)} {_judged(method)}" for method in comparison.compared)
    verdict = f"{markdown(comparison.verdict)} {markdown(comparison.worth)}"
    return f"Methods by balanced accuracy on the held-out images: {shown}. {verdict}"


def _judged(method: Compared) -> str:
    if method.held_out_balanced_accuracy is None:
        return "not in time"
    short = "" if method.epochs is None else f" (left behind after {number_of(method.epochs, 'epoch')})"
    return f"{100 * method.held_out_balanced_accuracy:.1f} %{short}"


def _probabilities(spec: ModelSpec, prior: str | None) -> str:
    found = spec.calibration
    if not found.images:
        text = "Probabilities are **not calibrated**: no images of at least two classes were held out. "
        if prior is not None and frequencies_unknown(found):
            text += sentence(UNMEASURED)
        else:
            text += "Their order counts, not their size."
    else:
        unseen = never_held_out(found, spec.classes)
        text = (
            f"Probabilities are calibrated on {found.images} held-out images"
            f"{f', none of them of {_names(unseen)}' * bool(unseen)} (temperature {1 / found.scale:.3f}, tau "
            f"{found.tau:.2f})."
        )
    shares = list(zip(spec.classes, found.own_prior, strict=True))
    own = ", ".join(f"{markdown(name)} {100 * q:.1f} %" for name, q in shares[:10])
    own += f" and {len(shares) - 10} more" * (len(shares) > 10)
    if frequencies_unknown(found):
        own = f"which are not known, between those of the training images ({own}) and equal ones"
    used = {
        None: "The predicted classes are those of the network, and the probabilities are for the class frequencies "
        f"that its scores stand for, {own}.",
        "balanced": "Those of this export are for a use in which all classes are equally frequent.",
        "train": "Those of this export are for a use in which classes are as frequent as among the training images.",
    }.get(prior, f"Those of this export are for the class frequencies of {markdown(prior or '')}.")
    return f"{text} {used}"


def _limits(spec: ModelSpec, record: RunRecord, prior: Prior | None) -> list[str]:
    classes, metrics = record.data.classes, record.selections.last.metrics
    tested = _tested(metrics, len(classes))
    trained = zip(spec.classes, spec.calibration.counts, strict=True)
    rare = [name for name, count in trained if count < FEW_TRAINED]
    known = [(name, int(count)) for name, count in zip(classes, tested, strict=True) if count != "?"]
    hardly = [name for name, count in known if 0 < count < FEW_TO_JUDGE]  # those of 0 are named with the results
    weak = [n for n, recall in zip(classes, metrics.recall, strict=True) if recall is not None and recall < 0.5]
    limits = [
        "It knows these classes only: an image of anything else gets one of them, often with confidence.",
        "It was tested on images of the same source. Another camera, staining, site or year has not been tried.",
    ]
    if rare:
        limits.append(f"Fewer than {FEW_TRAINED} training images: {_names(rare)}.")
    if hardly:
        limits.append(f"Fewer than {FEW_TO_JUDGE} test images, so that the results say little: {_names(hardly)}.")
    if weak:
        limits.append(f"Less than half of the images are recognised: {_names(weak)}.")
    if spec.calibration.images:  # that there is no calibration is said with the probabilities
        limits += map(sentence, cautions(spec.calibration, [markdown(name) for name in spec.classes], prior))
    limits.append("One training with one seed; another seed gives somewhat different numbers.")
    return limits


def _names(names: list[str]) -> str:
    return ", ".join(markdown(n) for n in names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _calibration_errors(record: RunRecord) -> str:
    """How good the probabilities of the test images are, before and after calibration."""
    if record.calibration is None:
        return ""
    lines = [
        "| expected calibration error on the test images, for | before % | after % |",
        "|---|---:|---:|",
    ]
    for what, before, after in CALIBRATION_ERRORS:
        errors = record.calibration.test
        lines.append(f"| {what} | {_percent(errors.get(before))} | {_percent(errors.get(after))} |")
    return "\n".join(lines)
