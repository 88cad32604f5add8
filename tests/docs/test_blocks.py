"""Everything the documentation tells a reader to run, runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from blood_cells import write_blood_cells
from page_blocks import blocks, pages, steps
from page_runner import Page

PROJECT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("page_runner.py")
SKIPS_ALLOWED = 0
SECONDS_PER_PAGE = 240


def name_of(page: Path) -> str:
    return page.relative_to(PROJECT).as_posix()


def small_image_folder(root: Path) -> None:
    """Two splits of three imbalanced classes of 16 x 16 pictures, a colour each."""
    noise = np.random.default_rng(0)
    for split, counts in {"train": (12, 6, 4), "test": (4, 4, 4)}.items():
        for channel, (name, count) in enumerate(zip(("cat", "dog", "fox"), counts, strict=True)):
            folder = root / split / name
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = noise.integers(0, 128, size=(16, 16, 3), dtype=np.uint8)
                pixels[:, :, channel] += 127
                Image.fromarray(pixels).save(folder / f"{index}.png")


@dataclass(frozen=True)
class Done:
    code: int
    shown: str


RunPage = Callable[[str, str, Path, Path], Done]


@pytest.fixture(scope="session")
def run_page() -> Iterator[RunPage]:
    """`run_page(text, name, source, folder)`: execute the steps of a page in an empty directory beside its plan."""
    command = [sys.executable, str(RUNNER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:

        def run(text: str, name: str, source: Path, folder: Path) -> Done:
            assert runner.stdin is not None
            assert runner.stdout is not None
            page = prepared(text, name, source, folder)
            runner.stdin.write(json.dumps(asdict(page)) + "\n")
            runner.stdin.flush()
            code = int(runner.stdout.readline())
            late = f"ended after {page.seconds} seconds" if code == -signal.SIGALRM else ""
            return Done(code, Path(page.output).read_text() + late)

        yield run


def prepared(text: str, name: str, source: Path, folder: Path) -> Page:
    """The page with what it needs in its directory."""
    work = folder / "work"
    work.mkdir()
    small_image_folder(work / "my_images")
    if "bccd.zip" in text:
        write_blood_cells(work / "bccd.zip")
    plan = folder / "plan.json"
    plan.write_text(json.dumps([step.as_dict() for step in steps(text, name, PROJECT)]))
    env = {name: value for name, value in os.environ.items() if name != "PROCRUSTEAN_DATA"}
    env["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), env["PATH"]])
    env |= {
        "CUDA_VISIBLE_DEVICES": "",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "110",
        "NO_COLOR": "1",
    }
    return Page(str(plan), str(source), str(work), str(folder / "output"), env, SECONDS_PER_PAGE)


#: They train dozens of runs, on photographs too, and draw and measure them.
LONG = ("docs/own-images.md", "docs/analysis.md", "docs/usage.md")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (name_of(page) in LONG))
        for page in pages(PROJECT)
    ],
)
def test_every_block_of_the_page_runs(page: Path, run_page: RunPage, tmp_path: Path) -> None:
    done = run_page(page.read_text(), name_of(page), page, tmp_path)
    if done.code:
        pytest.fail(done.shown[-6000:], pytrace=False)


def test_few_blocks_are_left_out() -> None:
    skipped = [
        f"{block.where}: {block.text}"
        for page in pages(PROJECT)
        for block in blocks(page.read_text(), name_of(page))
        if block.verb == "skip"
    ]
    assert len(skipped) <= SKIPS_ALLOWED, "\n".join(skipped)


PAGE = """
Set a value:

```python
value = 41
```

```bash
export GREETING="good day"
export METHOD=mfw
procrustean list methods $METHOD
make test  # not executed
NO_COLOR=1 procrustean --help | cat > help.txt
```

<!-- test: file notes/run.yaml -->
```yaml
epochs: 2
```

```python
import os
from pathlib import Path

assert value == 41, "blocks of a page share a namespace"
assert os.environ["GREETING"] == "good day"
assert Path("notes/run.yaml").read_text() == "epochs: 2\\n"
assert len(list(Path("my_images/train/cat").glob("*.png"))) == 12
assert "procrustean" in Path("help.txt").read_text()
print("reached the end")
```
"""


@pytest.fixture
def run_text(run_page: RunPage, tmp_path: Path) -> Callable[[str], Done]:
    def run(text: str) -> Done:
        source = tmp_path / "page.md"
        source.write_text(text)
        return run_page(text, "page.md", source, tmp_path)

    return run


def test_a_page_runs_in_order_in_one_place(run_text: Callable[[str], Done]) -> None:
    done = run_text(PAGE)
    assert done.code == 0, done.shown
    assert done.shown.rstrip().endswith("reached the end")


def test_a_failing_python_block_is_reported_with_its_line(run_text: Callable[[str], Done]) -> None:
    done = run_text("# Title\n\n```python\nx = 1\nassert x == 2\n```\n")
    assert done.code == 1
    assert "--- page.md:4: x = 1" in done.shown
    assert 'page.md", line 5' in done.shown
    assert "assert x == 2" in done.shown


def test_a_failing_command_is_reported_with_its_line_and_output(run_text: Callable[[str], Done]) -> None:
    done = run_text("```console\n$ procrustean --no-such-option\n```\n")
    assert done.code == 1
    heading, *output, verdict = done.shown.strip().splitlines()
    assert heading == "--- page.md:2: procrustean --no-such-option"
    assert "no-such-option" in "".join(output)
    assert verdict == "--- page.md:2: failed with exit code 2"
