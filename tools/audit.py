"""Ask the advisory database of PyPI about every pinned dependency. `make audit` runs it.

pip-audit calls a package that it cannot ask about "skipped" and is content; here that is a failure when it concerns all
of them, because an audit without a network must not look like a clean one.

Exit codes: 0 nothing known, 1 known vulnerabilities, 3 nothing could be checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
OPTIONS = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off")
CLEAN, VULNERABLE, UNCHECKED = 0, 1, 3


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(CONSTRAINTS), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        dependencies: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = done.stderr.strip().splitlines()[-1:] or ["no answer"]
        sys.stdout.write(f"audit: nothing was checked; pip-audit ended with: {reason[0]}\n")
        return UNCHECKED
    text, code = verdict(dependencies)
    sys.stdout.write(text)
    return code


def verdict(dependencies: list[dict[str, Any]]) -> tuple[str, int]:
    """What the answers amount to, in words and as an exit code."""
    checked = [each for each in dependencies if "skip_reason" not in each]
    skipped = [each["name"] for each in dependencies if "skip_reason" in each]
    if not checked:
        return (
            f"audit: nothing was checked: the advisory database knows none of the {len(skipped)} packages, so it "
            "cannot have been reached. Run `make audit` where there is a network.\n"
        ), UNCHECKED
    found = [(each, problem) for each in checked for problem in each["vulns"]]
    lines = [
        f"audit: {each['name']} {each['version']}: {problem['id']}, mended in {problem['fix_versions'] or 'no version'}"
        for each, problem in found
    ]
    lines.append(f"audit: {len(checked)} packages checked, {len(found)} known vulnerabilities")
    if skipped:
        lines.append(f"audit: not checked, because the database does not know them: {', '.join(skipped)}")
    return "\n".join(lines) + "\n", VULNERABLE if found else CLEAN


if __name__ == "__main__":
    sys.exit(main())
