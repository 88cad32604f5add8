"""The command line. Flags, help and checks are made by tyro from the typed commands; errors end in one clear message.

Nothing here imports torch: a command imports what it needs when it runs, so `--help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence

from procrustean.base.console import abandon, notify, write_result
from procrustean.base.errors import ProcrusteanError
from procrustean.base.own_code import failure_text
from procrustean.base.progress import PlainReporter


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 1 not all of it, 2 for input to be mended, 128 + n for signal n."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    _sleep_while_waiting()
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    warnings.showwarning = _show_warning
    try:
        if arguments == ["--version"]:
            from procrustean.base.version import __version__

            write_result(f"procrustean {__version__}")
            return 0
        from procrustean.cli.commands import parse

        return parse(arguments).run()
    except ProcrusteanError as error:
        if debug:
            traceback.print_exc()
        notify(str(error))
        return getattr(error, "exit_code", 2)
    except BrokenPipeError:
        abandon(sys.stdout)  # its reader (`| head`) has gone
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        notify("stopped at once")
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        notify(f"{failure_text(error)}. Nobody has foreseen this; {_logged(error)}")
        return 1


def _logged(error: Exception) -> str:
    """Write the way to an error into a file, and say where it is; where none can be written, show it."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="procrustean-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        traceback.print_exception(error)
        return "the way there is above"
    return f"the way there is in {file.name}"


def _open_closed_streams() -> None:
    """Give the streams that whoever started the program has closed (`2>&-`) a place where nothing is kept.

    Python has None for them, and the next file that is opened, a checkpoint for example, would have their number: what
    a library writes there would be written into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (as long as the program runs)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 (as long as the program runs)


def _sleep_while_waiting() -> None:
    """Let torch's threads sleep while they wait for one another, unless the user has said how they are to wait.

    By default they spin. Beside other programs a spinning thread uses up the time in which the one it waits for could
    have computed, and two threads were ten times slower than one. OpenMP reads this once, when torch is imported; the
    numbers that are computed stay the same.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """A warning of the library as one line, as reporters show theirs, without the line of source it arose in."""
    PlainReporter().say(f"warning: {message}")
