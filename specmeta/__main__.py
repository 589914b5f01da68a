"""``python -m specmeta`` is the ``specmeta`` command."""

from ._cli import main

main()
