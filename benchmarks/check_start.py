"""Cold start of `specmeta check` on a deployment file with two checkpoint directories.

    python benchmarks/check_start.py [--rounds 7]

Prints the median wall time of fresh processes that take turns, and its ratio to `import pydantic`.
One warm-up round writes the bytecode.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAIR = ROOT / "tests" / "data" / "checkpoints" / "dspark_qwen3_8b_block7"
DEPLOYMENT = """\
target: target
drafter: drafter
decoding: {decoding_type: DSpark, max_draft_len: 7}
engine:
  sized:
    max_num_requests: 16
    max_num_tokens: 8192
    max_seq_len: 32768
    dtype: bfloat16
    overlap_headroom: true
    disaggregated: false
"""


def measure(rounds: int) -> dict[str, float]:
    """Median seconds of each command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(PAIR, folder, dirs_exist_ok=True)
        (folder / "deployment.yaml").write_text(DEPLOYMENT)
        commands = {
            "import pydantic": ["-c", "import pydantic"],
            "specmeta check": ["-m", "specmeta", "check", str(folder / "deployment.yaml")],
        }
        samples: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(rounds + 1):
            for label, arguments in commands.items():
                start = time.perf_counter()
                command = [sys.executable, *arguments]
                subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
                if turn:
                    samples[label].append(time.perf_counter() - start)
    return {label: statistics.median(values) for label, values in samples.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="fresh processes of each command")
    medians = measure(parser.parse_args().rounds)
    for label, seconds in medians.items():
        print(f"{label:16} {seconds * 1e3:6.0f} ms")
    ratio = medians["specmeta check"] / medians["import pydantic"]
    print(f"ratio of specmeta check to pydantic: {ratio:.1f}")


if __name__ == "__main__":
    main()
