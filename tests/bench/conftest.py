"""The bundled pairs, loaded once for the benchmark's tests."""

import pytest

from specmeta_workers import Pair, default_engine, load_bundled_pairs
from specmeta_workers.bench import AcceptLengthOptions


@pytest.fixture(scope="session")
def pairs() -> tuple[Pair, ...]:
    """One pair a decoding type on one target, in float64, in which equality is exact."""
    types = AcceptLengthOptions().decoding_types
    return load_bundled_pairs(types, default_engine("float64"))


@pytest.fixture(scope="session")
def pair(pairs: tuple[Pair, ...]) -> Pair:
    """The DSpark pair."""
    return pairs[0]
