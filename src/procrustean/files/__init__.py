"""Files and paths that are read and written with one kind of error for all that can be wrong with them."""
