"""Import time of specmeta against pydantic with one model, in fresh interpreters that take turns.

    python benchmarks/import_time.py [--rounds 15]

Prints the medians above a bare interpreter and the ratio of the medians. Processor time is measured
rather than wall time, so that other work on the machine matters less.
"""

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CANDIDATES = {
    "bare": "pass",
    "pydantic": "import pydantic\nclass M(pydantic.BaseModel):\n    n: int",
    "specmeta": "import specmeta",
}


def processor_seconds(code: str) -> float:
    """User and system seconds of one fresh interpreter that runs `code`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def measure(rounds: int) -> dict[str, float]:
    """Median seconds of each candidate; one warm-up round writes the bytecode."""
    samples: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for turn in range(rounds + 1):
        for name, code in CANDIDATES.items():
            seconds = processor_seconds(code)
            if turn:
                samples[name].append(seconds)
    return {name: statistics.median(values) for name, values in samples.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=15, help="fresh interpreters for each candidate"
    )
    medians = measure(parser.parse_args().rounds)
    for name, seconds in medians.items():
        above = (seconds - medians["bare"]) * 1e3
        print(f"{name:10} {seconds * 1e3:7.1f} ms   {above:7.1f} ms above bare")
    print(f"ratio of specmeta to pydantic: {medians['specmeta'] / medians['pydantic']:.2f}")


if __name__ == "__main__":
    main()
