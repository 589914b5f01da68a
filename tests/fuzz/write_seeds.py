"""Valid files as a corpus to begin from: `python -m tests.fuzz.write_seeds CORPUS`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.fuzz_readers import readers
from tests.specmeta.files.fuzzing import (
    GGUF_SEEDS,
    INDEX_SEEDS,
    JSON_SEEDS,
    SAFETENSORS_SEEDS,
    YAML_SEEDS,
)

SEEDS = {
    "json": JSON_SEEDS,
    "lines": JSON_SEEDS,
    "yaml": YAML_SEEDS,
    "either": YAML_SEEDS,
    "gguf": GGUF_SEEDS,
    "safetensors": SAFETENSORS_SEEDS,
    "index": INDEX_SEEDS,
}


def main(corpus: Path) -> None:
    """Write each seed behind the byte that chooses its reader."""
    corpus.mkdir(parents=True, exist_ok=True)
    for first, name in enumerate(readers()):
        for number, seed in enumerate(SEEDS[name]):
            (corpus / f"{name}{number}").write_bytes(bytes([first]) + seed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
