"""Methods in files of the user's own: which code is meant, what goes wrong in it, a trial before a long run."""
