"""Record the golden set: python tests/golden/record.py [--full DIR].

It writes golden.json beside this file. --full also keeps all weights and scores, a DIR/CASE.npz each, to find out how
a case differs. Where golden.json is of another machine, record it again from the commit that it came with.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from golden_cases import CASES
from golden_images import write_images
from golden_numbers import KEPT, computed, environment, summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", type=Path, metavar="DIR", help="also keep all weights and scores")
    full = parser.parse_args().full
    kept = {}
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        for case in CASES:
            began = time.process_time()
            (place := Path(folder) / case.name).mkdir()
            arrays = computed(case, Path(folder), place)
            kept[case.name] = summary(arrays)
            if full:
                full.mkdir(parents=True, exist_ok=True)
                np.savez(full / f"{case.name}.npz", **arrays)
            print(f"{case.name:24}{time.process_time() - began:6.2f} s  {kept[case.name]['values']}", flush=True)
    KEPT.write_text(json.dumps({"environment": environment(), "cases": kept}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
