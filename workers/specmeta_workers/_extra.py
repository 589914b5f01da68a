"""Imported first: says what to install where the extra is missing."""

from __future__ import annotations

from importlib.util import find_spec

for _name in ("attrs", "torch", "safetensors", "transformers"):
    if find_spec(_name) is None:
        raise ModuleNotFoundError(
            f'specmeta_workers needs {_name}: pip install "specmeta[workers]"', name=_name
        )
