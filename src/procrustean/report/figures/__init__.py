"""Figures of runs: a file each, or a few that are alike, and a line each in `table.py`."""
