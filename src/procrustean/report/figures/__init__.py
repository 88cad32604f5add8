"""Figures of runs: a file each, or a few that are alike, and a line each in `figure_table.py`."""
