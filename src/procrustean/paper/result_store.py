"""Where finished runs are found and kept: JSON files in a results folder, and run directories."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import count
from pathlib import Path

import msgspec

from procrustean.base.errors import ConfigError, RunError
from procrustean.base.files import remove_half_written, write_atomically, write_json
from procrustean.base.json_files import read_typed, typed_json
from procrustean.base.lease import in_turn
from procrustean.paper.same_runs import (
    OTHER_IMAGES,
    Stored,
    canonical,
    trained_as_today,
    unmeasured,
    whatever_the_seed,
    why_not_usable,
)
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE, may_be_result
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import Result, load_result
from procrustean.records.run_spec import RunSpec

FAILURES = "failures.json"
OTHER_DEFAULTS = "was trained with other defaults than those of this version"


class Store:
    """Finished runs by the hash of what they compute.

    Args:
        results: folder of result files, one per run, in any folders below; new ones are added to it.
        output: folder of run directories, where training goes on.
        say: told of files that are left out, and why.
    """

    def __init__(self, results: Path, output: Path | None, say: Callable[[str], None] = lambda text: None) -> None:
        self.results, self.output, self._say = results, output, say
        self._said: set[str] = set()
        self.kept: dict[str, Stored] = {}
        self._repeats: dict[str, list[Stored]] = {}  # the same, whatever the training seed
        self.held_out_of_sources: set[float] = set()  # images per class that runs keep out of their source
        self.places: dict[str, Path] = {}  # run directories, finished or not
        self._directories: dict[str, dict[Path, str]] = {}  # all of a run, with the hash of their images
        self._unkept: dict[str, Path] = {}  # finished ones that are not in the results folder
        self._outdated: set[Path] = set()  # resolved files and run directories: damaged, or of other defaults or images
        self._there = {*results.rglob("*.json")} if results.is_dir() else set()
        for path in sorted(self._there):
            if may_be_result(path):
                self._add(path)
        # One that was measured on its way is the same run without that, too, unless there is one that was not.
        for stored in [*self.kept.values()]:
            plain = unmeasured(stored.config)
            if plain.hash not in self.kept:
                self._remember(Stored(plain, stored.result))
        for path in sorted(output.glob(f"*/{CONFIG_FILE}")) if output is not None else []:
            self._add_directory(path.parent)

    def find(self, config: RunSpec) -> Stored | None:
        """The finished run of these settings."""
        return self.kept.get(canonical(config).hash)

    def repeats(self, config: RunSpec) -> list[Result]:
        """The finished runs of these settings with any training seed, by seed; none of settings that cannot be."""
        try:
            same = whatever_the_seed(canonical(config))
        except ConfigError:  # a ratio that leaves a class without images
            return []
        found = sorted(self._repeats.get(same, []), key=lambda stored: stored.config.seed)
        if not found:
            return []
        # Runs on different images are no repeats of one another, nor rivals in a column: those on the newest images of
        # their source count, in whichever row these were trained on.
        newest = max(found, key=lambda stored: stored.written).on_newest_images(self.kept.values())
        for stored in found:
            if stored.images != newest.images:
                self._say_once(stored.older_text(newest))
        return [stored.result for stored in found if stored.images == newest.images]

    def with_seeds(self, seeds: int | None) -> Store:
        """The same store, of which only the training seeds 0, 1, ... up to so many are seen; None for all."""
        if seeds is None:
            return self
        seen = copy(self)
        seen.kept = {name: stored for name, stored in self.kept.items() if stored.config.seed < seeds}
        seen._repeats = {
            name: [stored for stored in repeats if stored.config.seed < seeds]
            for name, repeats in self._repeats.items()
        }
        return seen

    def leave_out_other_images(self, run: RunSpec, images_now: Callable[[], str | None]) -> None:
        """Leave out a run, finished or begun, that is of other images than its source holds now.

        Args:
            run: its settings in the form by which runs are told apart.
            images_now: gives the hash of the images of the source, if that can be known; asked only where there is
                such a run.
        """
        stored, directories = self.kept.get(run.hash), self._directories.get(run.hash, {})
        now = images_now() if stored is not None or directories else None
        if now is None:
            return
        if stored is not None and stored.images != now:
            self._forget(stored)
            self._leave_out(stored.path, run.source)
        for directory, images in [*directories.items()]:
            if images != now:
                del directories[directory]
                self._leave_out(directory, run.source)
        self.places.pop(run.hash, None)
        if directories:
            self.places[run.hash] = [*directories][-1]

    def _forget(self, stored: Stored) -> None:
        self.kept.pop(stored.config.hash)
        self._unkept.pop(stored.config.hash, None)
        repeats = self._repeats[whatever_the_seed(stored.config)]
        repeats[:] = [other for other in repeats if other is not stored]

    def _leave_out(self, path: Path, source: str) -> None:
        self._outdated.add(path.resolve())
        self._say_once(f"left out: {path} {OTHER_IMAGES} {source} holds now")

    def place(self, config: RunSpec) -> Path:
        """The directory in which the run goes on, or begins; its name may be that of an older version."""
        if self.output is None:
            raise RunError("this store has no folder for run directories")
        if config.hash in self.places:
            return self.places[config.hash]
        usual, place = self.output / config.slug, self._beside_outdated(self.output, config.slug)
        if place != usual and self.find(config) is None:  # which is to be trained, then
            self._say(f"{usual} stays as it is; its run is to be trained anew in {place}")
        return place

    def keep(self, directory: Path, folder: str, command: str) -> Stored:
        """Copy the result of a finished run into the results folder, with the command that made it.

        Another process may have put it there, for another table: then that file counts.
        """
        result = load_result(directory)
        config = canonical(result.config)
        path = self._beside_outdated(self.results / folder, config.slug, ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        with in_turn(self.results):
            remove_half_written(path.parent)
            there = self._put_there_by_another(config)
            if there is None:
                record = msgspec.structs.replace(result.record, command=command)
                write_atomically(path, typed_json(record, indent=0))
                there = Result(record, path.resolve())
        self._unkept.pop(config.hash, None)
        stored = self._remember(Stored(config, there))
        if config.hash in self._noted_failures():
            self._note_failures(self.failures())
        return stored

    def _put_there_by_another(self, config: RunSpec) -> Result | None:
        """The result of a run, if it has come into the results folder since the store was opened."""
        for path in sorted(self.results.rglob(f"{config.slug}.json")):
            if path not in self._there:
                return load_result(path)
        return None

    def unkept(self) -> dict[str, Path]:
        """Run directories that are finished but not in the results folder, after a kill for example."""
        return dict(self._unkept)

    def failures(self) -> dict[str, str]:
        """Runs that ended in an error in an earlier call and have not been trained since, by hash, with the error."""
        return {name: error for name, error in self._noted_failures().items() if name not in self.kept}

    def note_failure(self, config: RunSpec, error: str) -> None:
        """Remember a run that ended in an error, so that it is not tried again and again."""
        self._note_failures({**self.failures(), config.hash: error})

    def _noted_failures(self) -> dict[str, str]:
        path = self.failures_file
        if path is None or not path.exists():
            return {}
        return read_typed(path, dict[str, str], "remove it to try failed runs again")

    def _note_failures(self, failures: dict[str, str]) -> None:
        path = self.failures_file
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, failures)

    @property
    def failures_file(self) -> Path | None:
        """Where failed runs are noted; None for a store without run directories."""
        return None if self.output is None else self.output / FAILURES

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _add(self, path: Path) -> None:
        try:
            result = load_result(path)
            if (why := why_not_usable(result.config)) is not None:
                self._say_once(f"left out: {why}")
                return
            config = canonical(result.config)
        except (ConfigError, RunError) as error:
            self._say(f"left out: {error}")
            return
        if not trained_as_today(result.record.method.options, result.record.recipe, result.config):
            self._outdated.add(path.resolve())
            self._say(f"left out: {path} {OTHER_DEFAULTS}")
            return
        stored, other = Stored(config, result), self.kept.get(config.hash)
        if other is None:
            self._remember(stored)
            return
        first, second = (stored, other) if stored.counts_before(other) else (other, stored)
        self._remember(first)
        if first.images != second.images:
            self._outdated.add(second.path)
            self._say_once(second.older_text(first))
            return
        differ = first.result.record.selections != second.result.record.selections
        apart = ", but has other numbers; remove the one that does not count" if differ else ""
        self._say(f"left out: {second.path} is the same run as {first.path}{apart}")

    def _remember(self, stored: Stored) -> Stored:
        self.kept[stored.config.hash] = stored
        hold_out = stored.config.hold_out or 0
        if hold_out >= 1 and stored.config.hold_out_from == "source":
            self.held_out_of_sources.add(hold_out)
        repeats = self._repeats.setdefault(whatever_the_seed(stored.config), [])
        repeats[:] = [*(other for other in repeats if other.config.hash != stored.config.hash), stored]
        return stored

    def _add_directory(self, directory: Path) -> None:
        try:
            began = RunFolder(directory).beginning()
            config, identity = began.config, began.identity
            if (why := why_not_usable(config)) is not None:
                self._say_once(f"left out: {why}")
                return
            made_here = canonical(config).hash == config.hash
            finished = load_result(directory) if (directory / RESULT_FILE).exists() else None
        except (ConfigError, RunError) as error:
            self._outdated.add(directory.resolve())  # or the run would be sent back into what cannot be read
            self._say(f"left out: {directory} ({error})")
            return
        if not made_here:
            return
        # A run that has not ended goes on with what it began with, whatever the defaults are by then.
        if trained_as_today(identity.options, identity.recipe, config):
            self.places[config.hash] = directory
            self._directories.setdefault(config.hash, {})[directory] = identity.source_hash
            if config.hash not in self.kept and finished is not None:
                self._unkept[config.hash] = directory
                self._remember(Stored(config, finished))
        else:
            self._outdated.add(directory.resolve())
            self._say(f"left out: {directory} {OTHER_DEFAULTS}")

    def _beside_outdated(self, folder: Path, name: str, suffix: str = "") -> Path:
        """The path of this name, or the first with a number after it: what is damaged, or of other settings, stays."""
        numbered = (folder / f"{name}-{number}{suffix}" for number in count(2))
        path = folder / f"{name}{suffix}"
        while path.resolve() in self._outdated:
            path = next(numbered)
        return path
