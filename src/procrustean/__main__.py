"""`python -m procrustean` is the `procrustean` command."""

from __future__ import annotations

import sys

from procrustean.cli import main

if __name__ == "__main__":
    sys.exit(main())
