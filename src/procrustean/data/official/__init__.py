"""The larger data sets of the paper: readers of their official layouts, and the store they are decoded into once."""
