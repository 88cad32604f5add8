"""Why a network does what it does to its classes, told from the records of runs."""
