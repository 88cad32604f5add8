"""Look at images before training: counts, broken files, duplicates, and what is advised for them."""
