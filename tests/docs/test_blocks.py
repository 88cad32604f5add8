"""Everything the documentation tells a reader to run, runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from blood_cells import write_blood_cells
from page_blocks import blocks, pages, steps

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


def run_page(text: str, name: str, source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Execute the steps of a page in an empty working directory beside its plan."""
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
    return subprocess.run(
        [sys.executable, str(RUNNER), str(plan), str(source)],
        cwd=work,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_PER_PAGE,
        check=False,
    )


@pytest.mark.parametrize("page", pages(PROJECT), ids=name_of)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    result = run_page(page.read_text(), name_of(page), page, tmp_path)
    if result.returncode:
        pytest.fail(result.stdout[-6000:], pytrace=False)


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


def run_text(text: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "page.md"
    source.write_text(text)
    return run_page(text, "page.md", source, tmp_path)


def test_a_page_runs_in_order_in_one_place(tmp_path: Path) -> None:
    result = run_text(PAGE, tmp_path)
    assert result.returncode == 0, result.stdout
    assert result.stdout.rstrip().endswith("reached the end")


def test_a_failing_python_block_is_reported_with_its_line(tmp_path: Path) -> None:
    result = run_text("# Title\n\n```python\nx = 1\nassert x == 2\n```\n", tmp_path)
    assert result.returncode == 1
    assert "--- page.md:4: x = 1" in result.stdout
    assert 'page.md", line 5' in result.stdout
    assert "assert x == 2" in result.stdout


def test_a_failing_command_is_reported_with_its_line_and_output(tmp_path: Path) -> None:
    result = run_text("```console\n$ procrustean --no-such-option\n```\n", tmp_path)
    assert result.returncode == 1
    heading, *output, verdict = result.stdout.strip().splitlines()
    assert heading == "--- page.md:2: procrustean --no-such-option"
    assert "no-such-option" in "".join(output)
    assert verdict == "--- page.md:2: failed with exit code 2"
