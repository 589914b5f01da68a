"""``specmeta check``: what an input is, everything that is wrong with it, and how that is shown."""
