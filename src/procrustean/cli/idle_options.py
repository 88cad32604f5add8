"""Options of `procrustean paper reproduce` that a call would not look at: they are refused, not ignored."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import ConfigError

if TYPE_CHECKING:
    from procrustean.cli.reproduce import Reproduce

#: A dry run takes all of these: it plans the very call that would train.
OF_TRAINING = ("held_out", "minutes", "width", "data_dir", "download", "retry", "dry_run")
#: They choose tables and results, or how these are shown.
OF_TABLES = ("names", "rows", "columns", "seeds", "data_seed", "tables", "allow_code", "show", "format")


def refuse_idle_options(call: Reproduce) -> None:
    """ConfigError for options without an effect in what is to be done."""
    idle: tuple[str, ...]
    if call.pages is not None:
        idle = (*OF_TABLES, *OF_TRAINING)
        why, instead = "--pages trains nothing and tells all results of the paper's tables", "--pages"
    elif call.show:
        idle = OF_TRAINING
        why, instead = "--show prints what is measured and trains nothing", "--show"
    elif not call.names:
        idle = ("seeds", "format", *OF_TRAINING)
        why, instead = "without the name of a table the tables are only listed", "name a table"
    else:
        return
    defaults = {field.name: field.default for field in fields(call)}
    given = [_written(name, getattr(call, name)) for name in idle if getattr(call, name) != defaults[name]]
    if given:
        them = "it" if len(given) == 1 else "them"
        raise ConfigError(f"{', '.join(given)} received, but {why}; leave {them} out, or {instead}")


def _written(name: str, value: Any) -> str:
    """An option as one gives it."""
    if name == "names":
        return f"the table{'s' * (len(value) > 1)} {', '.join(value)}"
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, tuple):
        return " ".join([flag, *map(str, value)])
    if isinstance(value, float):
        value = f"{value:g}"
    return flag if value is True else f"{flag} {value}"
