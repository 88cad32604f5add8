"""The report of real runs, as its readers use it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from procrustean import fit
from procrustean.base.table_formats import to_csv, to_latex
from procrustean.records import group_results, load_result
from procrustean.report import comparison, write_report

if TYPE_CHECKING:
    from .conftest import Browser

SECTIONS = ["result", "classes", "epochs", "class-curves", "confusion", "settings"]
PANELS = "#class-curves .panels .panel"


def overflow(browser: Browser) -> list[str]:
    """What sticks out of the window to the right, apart from what is inside a box that scrolls."""
    found: list[str] = browser.run(
        """const wide = document.documentElement.clientWidth;
        return [...document.body.querySelectorAll("*")]
            .filter((one) => !one.closest(".scroll, .chips, .skip, #tip, svg"))
            .filter((one) => one.getBoundingClientRect().right > wide + 1)
            .map((one) => one.tagName + "." + one.className + "#" + one.id);"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_network_and_without_errors(
    browser: Browser, report: Path, width: int, scheme: str
) -> None:
    browser.open(report.as_uri(), width=width, scheme=scheme)
    assert [section.get_attribute("id") for section in browser.all("main section")] == SECTIONS
    assert browser.driver.title == "ERM and MFW on digits"
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert overflow(browser) == []
    pictures = browser.all(".pictures img")
    assert pictures
    assert all(browser.run("return arguments[0].naturalWidth", picture) == 8 for picture in pictures)
    for selector in ("#overall", "#quantity", "#layout-1", "#classes-2", "#theme", "#method-0"):
        browser.one(selector)
    assert {address.split(":")[0] for address in browser.requests()} <= {"file", "data"}
    assert browser.console() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_hovering_shows_the_measured_values(browser: Browser, report: Path, runs: list[Path], width: int) -> None:
    browser.open(report.as_uri(), width=width)
    browser.hover("#epochs svg.chart", 0.5, 0.5)
    tip = browser.one("#tip")
    assert tip.is_displayed()
    epoch = int(re.fullmatch(r"Epoch (\d+)", tip.text.splitlines()[0])[1])  # type: ignore[index]
    shown = {row.text.rsplit("\n", 1)[0].split(" ")[0]: row.text for row in browser.all("#tip tr")}
    for group in group_results(load_result(run) for run in runs):
        values = [result.record.curves.test_balanced_accuracy[epoch - 1] for result in group.results]
        assert f"{100 * sum(values) / 2:.1f} ±" in shown[group.label]
    assert len(browser.all("#epochs .cursor circle")) == 2
    browser.hover("#epochs h2", 0.5, 0.5)
    assert not tip.is_displayed()
    assert browser.console() == []


def test_the_cursor_of_one_panel_shows_in_all(browser: Browser, report: Path) -> None:
    browser.open(report.as_uri())
    browser.hover(f"{PANELS} svg.chart", 0.6, 0.5)
    assert [len(panel.find_elements("css selector", ".cursor circle")) for panel in browser.all(PANELS)] == [10, 10]


@pytest.mark.parametrize("width", [1280, 390])
def test_classes_are_picked_and_methods_compared(browser: Browser, report: Path, width: int) -> None:
    def lines() -> list[int]:
        return [len(panel.find_elements("css selector", ".line")) for panel in browser.all(PANELS)]

    browser.open(report.as_uri(), width=width)
    assert lines() == [10, 10]
    browser.click("#class-3")
    assert browser.one("#class-3").get_attribute("aria-pressed") == "false"
    assert browser.run("return document.activeElement.id") == "class-3"
    assert lines() == [9, 9]
    browser.click("#classes-2")  # the smallest five
    assert lines() == [5, 5]
    pressed = [chip.get_attribute("id") for chip in browser.all(".picker .chip[aria-pressed=true]")]
    assert pressed == [f"class-{index}" for index in range(5, 10)]
    browser.click("#layout-1")  # one panel per class
    assert lines() == [2] * 5
    browser.click("#method-0")
    assert lines() == [1] * 5
    assert [line.text for line in browser.all("#epochs .legend li")] == ["MFW"]
    browser.click("#classes-3")  # none
    assert lines() == []
    assert "Pick a class" in browser.one("#class-curves").text
    browser.run(
        "const list = document.getElementById('quantity'); list.value = 'Training accuracy';"
        "list.dispatchEvent(new Event('change'));"
    )
    browser.click("#classes-0")  # all
    assert lines() == [1] * 10
    assert browser.console() == []


def test_the_layers_at_which_gradients_were_measured_are_named(browser: Browser, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"imbalance": "step", "rho": 20, "epochs": 3, "probe_every": 1, "device": "cpu"}
    paths = [tmp_path / method for method in ("erm", "mislas")]
    for path in paths:
        fit("digits", method=path.name, run_dir=path, **settings)
    write_report(paths, tmp_path / "report.html", examples=0)
    browser.open((tmp_path / "report.html").as_uri())
    browser.run(
        "const list = document.getElementById('quantity'); list.value = 'Gradient norm';"
        "list.dispatchEvent(new Event('change'));"
    )
    said = "Measured: ERM at group2; MiSLAS at input (epochs 1 to 2) and group2 (epoch 3). Lengths at different layers"
    assert said in browser.one("#class-curves").text
    browser.click("#method-1")
    assert "Measured at group2." in browser.one("#class-curves").text


def test_the_keyboard_reads_the_curves_and_the_matrix(browser: Browser, report: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(report.as_uri())
    for selector, heading in (("#epochs svg.chart", "Epoch 3"), ("#confusion svg.matrix", "0 taken for 1")):
        chart = browser.one(selector)
        browser.run("arguments[0].focus()", chart)
        chart.send_keys(Keys.ARROW_LEFT if heading.startswith("Epoch") else Keys.ARROW_RIGHT)
        assert browser.one("#tip .tip-heading").text == heading
        chart.send_keys(Keys.ESCAPE)
        assert not browser.one("#tip").is_displayed()
    assert browser.run(
        "return [...document.querySelectorAll('button, select, input')].every((one) => one.tabIndex === 0)"
    )
    unnamed = browser.run(
        "return [...document.querySelectorAll('button, select, input, svg[role=img], img')].filter((one) =>"
        "!(one.getAttribute('aria-label') || one.getAttribute('alt') || one.textContent.trim() || one.labels?.length))"
    )
    assert unnamed == []


@pytest.mark.parametrize(
    ("accuracies", "labels"),
    [
        ((0.915, 0.99, 0.96, 1.0), ["90.0", "92.5", "95.0", "97.5", "100.0"]),
        ((1.0, 1.0, 1.0, 1.0), ["94", "96", "98", "100"]),
        ((0.0, 0.001, 0.0, 0.0), ["0.0", "0.5", "1.0", "1.5", "2.0"]),  # never less than two points wide
    ],
)
def test_the_axis_of_accuracies_ends_where_they_do(
    browser: Browser, runs: list[Path], tmp_path: Path, accuracies: tuple[float, ...], labels: list[str]
) -> None:
    for run, accuracy in zip(runs, accuracies, strict=True):
        record = json.loads((run / "result.json").read_text())
        for selection in record["selections"].values():
            selection["metrics"]["balanced_accuracy"] = selection["metrics"]["accuracy"] = accuracy
        (tmp_path / f"{run.name}.json").write_text(json.dumps(record))
    write_report([tmp_path / f"{run.name}.json" for run in runs], tmp_path / "report.html", examples=0)
    browser.open((tmp_path / "report.html").as_uri())
    texts = browser.one(".selection svg").find_elements("css selector", "text[text-anchor=middle]")
    assert [text.text for text in texts] == labels


def test_the_three_selections_stand_side_by_side(browser: Browser, report: Path) -> None:
    browser.open(report.as_uri())
    panels = browser.all(".selection")
    assert [panel.find_element("css selector", "h3").text for panel in panels] == [
        "Last epoch",
        "Chosen on held-out images",
        "Oracle: chosen on the test set",
    ]
    assert len({round(panel.rect["y"]) for panel in panels}) == 1
    assert "Bold: the best mean of its column. Last epoch: best is" in browser.one("#result .note").text
    browser.click("#classes-selection-2")
    assert "oracle" in browser.one("#classes .table-title").text
    assert not browser.all(".pictures"), "the examples are of the last epoch"


def test_numbers_in_plot_and_table_agree(browser: Browser, report: Path) -> None:
    browser.open(report.as_uri())
    plotted = [text.text for text in browser.all(".selection.last .row-value")]
    compared = browser.all("#result table")[0]
    tabled = [cell.text for cell in compared.find_elements("css selector", "tbody tr td:nth-child(2)")]
    assert plotted == tabled


def test_few_classes_are_shown_unfolded_and_examples_name_their_run(
    browser: Browser, report: Path, runs: list[Path]
) -> None:
    browser.open(report.as_uri())
    shown = [table.text.splitlines()[0] for table in browser.all("#classes table") if table.is_displayed()]
    assert shown[0] == "class training images test images ERM MFW"
    assert "Precision of every class as a table" in browser.one("#classes details").text
    assert "Expected calibration error" in browser.one("#result").text
    named = [note.text for note in browser.all("#confusion .note") if note.text.startswith("Example images")]
    assert named[0].startswith(f"Example images confused by the run {runs[0].name}")
    assert browser.one("#confusion code").text == runs[0].name


def test_results_a_tenth_of_a_point_apart_do_not_look_far_apart(
    browser: Browser, runs: list[Path], tmp_path: Path
) -> None:
    for number, accuracy in enumerate((0.6231, 0.6249)):
        record = json.loads((runs[0] / "result.json").read_text())
        record["config"]["options"] = {"number": number}
        record["label"] = f"Method {number}"
        for selection in record["selections"].values():
            selection["metrics"] |= {"accuracy": accuracy, "balanced_accuracy": accuracy}
        (tmp_path / f"{number}.json").write_text(json.dumps(record))
    write_report([tmp_path / "0.json", tmp_path / "1.json"], tmp_path / "close.html")
    browser.open((tmp_path / "close.html").as_uri())
    ticks = [float(text.text) for text in browser.all(".selection.last .selection-chart > text")]
    assert len(set(ticks)) == len(ticks) >= 3
    assert max(ticks) - min(ticks) >= 1


def test_tables_are_downloaded(browser: Browser, report: Path, runs: list[Path], tmp_path: Path) -> None:
    browser.open(report.as_uri())
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    table = comparison(group_results(load_result(run) for run in runs))
    for number, name, content in ((1, "comparison.csv", to_csv(table)), (2, "comparison.tex", to_latex(table))):
        browser.click(f"#result .download:nth-child({number})")
        browser.until(lambda name=name: (tmp_path / name).exists())
        assert (tmp_path / name).read_text() == content


def test_light_and_dark_can_be_switched(browser: Browser, report: Path) -> None:
    def brightness() -> float:
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        return sum(int(number) for number in re.findall(r"\d+", colour)[:3]) / 3

    browser.open(report.as_uri(), scheme="dark")
    assert brightness() < 60
    browser.click("#theme")
    assert brightness() > 200
    browser.click("#theme")
    assert brightness() < 60


def luminance(colour: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_from_the_background(browser: Browser, report: Path, scheme: str) -> None:
    browser.open(report.as_uri(), scheme=scheme)

    def contrast(name: str, ground: str) -> float:
        pair = browser.run(
            """const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
            const probe = document.body.appendChild(document.createElement("span"));
            return [...arguments].map((name) => {
                probe.style.color = `var(--${name})`;
                canvas.fillStyle = getComputedStyle(probe).color;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
            });""",
            name,
            ground,
        )
        low, high = sorted(luminance(colour) for colour in pair)
        return (high + 0.05) / (low + 0.05)

    for name in ("ink", "muted", "accent", "warn"):
        assert contrast(name, "paper") >= 4.5, name
        assert contrast(name, "card") >= 4.5, name
    lines = [f"method-{number}" for number in range(8)] + [
        "class-large",
        "class-middle",
        "class-small",
        "right",
        "wrong",
    ]
    for name in lines:
        assert contrast(name, "paper") >= 3, name


def test_it_prints_without_controls_and_with_everything_open(browser: Browser, report: Path) -> None:
    browser.open(report.as_uri(), scheme="dark")
    browser.run(
        "addEventListener('beforeprint', () => { window.opened = document.querySelectorAll('details[open]').length; })"
    )
    pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(pdf) > 50_000
    assert browser.run("return window.opened") == len(browser.all("details")) > 0
    assert browser.all("details[open]") == []
    browser.medium("print", "dark")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in (".toolbar", ".downloads", "#theme", "#layout-1", "#classes-0"):
        assert not browser.one(selector).is_displayed(), selector
    assert browser.one("#layout-0").is_displayed(), "what is shown has to be said"
    assert browser.run("return getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"


def test_nothing_is_cut_off_on_paper(browser: Browser, report: Path) -> None:
    browser.open(report.as_uri(), width=720)
    browser.medium("print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.documentElement.scrollWidth") <= 720


def test_the_data_in_the_page_are_those_of_the_runs(report: Path, runs: list[Path]) -> None:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', report.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    (setting,) = data["settings"]
    assert [method["label"] for method in setting["methods"]] == ["ERM", "MFW"]
    assert [method["seeds"] for method in setting["methods"]] == [[0, 1], [0, 1]]
    assert len(setting["provenance"]) == len(runs)
