"""The bundled pair, loaded once for the benchmark's tests."""

import pytest

from specmeta_workers import Pair, default_engine, load_bundled


@pytest.fixture(scope="session")
def pair() -> Pair:
    """In float64, in which equality is exact."""
    return load_bundled(engine=default_engine("float64"))
