"""Is this machine ready: what works, what is missing, what to do."""
