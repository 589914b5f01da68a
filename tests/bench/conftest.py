"""The bundled pair, loaded once for the benchmark's tests."""

import pytest

from specmeta import EngineConfig
from specmeta_workers import Pair, load_bundled


def load(dtype: str) -> Pair:
    engine = EngineConfig.sized(
        max_num_requests=16,
        max_num_tokens=512,
        max_seq_len=512,
        dtype=dtype,  # type: ignore[arg-type]  # the engine checks the name
        overlap_headroom=False,
        disaggregated=False,
    )
    return load_bundled(engine=engine)


@pytest.fixture(scope="session")
def pair() -> Pair:
    """In float64, in which equality is exact."""
    return load("float64")
