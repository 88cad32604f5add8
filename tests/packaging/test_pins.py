"""The versions that are tested are exact, allowed, and none of those known to be bad."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[2]

#: Versions that must not be installed, and why.
KNOWN_BAD = {
    ("torch", "2.9.1"): "a weights-only checkpoint can run code (CVE-2026-24747)",
    ("pillow", "12.0.0"): "crafted images overflow (CVE-2026-96639)",
    ("pyyaml", "5.3.1"): "full_load runs code (CVE-2020-14343)",
    ("pyyaml", "6.0"): "cannot be built with current Cython",
    ("numpy", "1.26.4"): "the arrays of this library are those of numpy 2",
    ("lightning", "2.6.2"): "a malicious upload",
    ("lightning", "2.6.3"): "a malicious upload",
    ("transformers", "4.47.1"): "model files can run code (CVE-2024-11393)",
}


#: What nothing here is tested with, and the page about reliability says so.
NOT_PINNED = {"wandb"}


def requirements() -> list[Requirement]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return [requirement for text in texts if (requirement := Requirement(text)).name != "procrustean"]


def pins() -> dict[str, str]:
    lines = [line for line in (PROJECT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    found = [Requirement(line) for line in lines]
    assert all(str(pin.specifier).startswith("==") and "*" not in str(pin.specifier) for pin in found)
    return {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in found}


def test_every_pin_is_exact_and_there_once() -> None:
    lines = [line for line in (PROJECT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert len(pins()) == len(lines) > 50


def test_what_is_tested_is_allowed() -> None:
    pinned = pins()
    for requirement in requirements():
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is None or requirement.specifier.contains(version), f"{requirement} does not allow {version}"


def test_what_the_package_needs_is_pinned() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    names = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    assert names <= pins().keys()


def test_what_is_not_pinned_is_told() -> None:
    """The audit asks about pins alone."""
    assert {canonicalize_name(requirement.name) for requirement in requirements()} - pins().keys() == NOT_PINNED
    page = (PROJECT / "docs" / "reliability.md").read_text()
    section = page.partition("\n## Dependencies\n")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in section for name in NOT_PINNED)


@pytest.mark.parametrize(("name", "version"), KNOWN_BAD, ids=lambda value: str(value))
def test_versions_known_to_be_bad_are_excluded(name: str, version: str) -> None:
    assert pins().get(name) != version
    for requirement in requirements():
        if canonicalize_name(requirement.name) == name:
            assert not requirement.specifier.contains(version), KNOWN_BAD[name, version]


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", PROJECT / "tools" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_audit_without_a_network_says_so_and_fails(audit: ModuleType) -> None:
    text, code = audit.verdict([{"name": "torch", "skip_reason": "not found"}, {"name": "numpy", "skip_reason": ""}])
    assert code == audit.UNCHECKED
    assert "nothing was checked" in text
    assert "none of the 2 packages" in text


def test_an_audit_names_what_is_known(audit: ModuleType) -> None:
    problem = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    text, code = audit.verdict(
        [
            {"name": "good", "version": "1.0", "vulns": []},
            {"name": "bad", "version": "1.0", "vulns": [problem]},
            {"name": "own", "skip_reason": "not found"},
        ]
    )
    assert code == audit.VULNERABLE
    assert "bad 1.0: PYSEC-1, mended in ['2.0']" in text
    assert "2 packages checked, 1 known" in text
    assert "own" in text
    assert audit.verdict([{"name": "good", "version": "1.0", "vulns": []}])[1] == audit.CLEAN
