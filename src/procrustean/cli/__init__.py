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

from ..errors import ProcrusteanError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 for input that has to be mended, 128 + n for signal n."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        from .. import __version__

        sys.stdout.write(f"procrustean {__version__}\n")
        return 0
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    warnings.showwarning = _show_warning
    try:
        from .commands import parse

        return parse(arguments).run()
    except ProcrusteanError as error:
        if debug:
            traceback.print_exc()
        sys.stderr.write(f"procrustean: {error}\n")
        return getattr(error, "exit_code", 2)
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone; without a pipe there is nothing left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        sys.stderr.write("procrustean: stopped at once\n")
        return 130


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """A warning of the library as one line for people, without the line of source it arose in."""
    sys.stderr.write(f"procrustean: warning: {message}\n")
