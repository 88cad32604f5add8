"""The data sets that can be named: a file each, and a table of one line each."""
