"""What starts an engine, by the words of a command."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ._words import Word

_MODULES = {
    "vllm": re.compile(r"vllm(?:\.entrypoints\.[\w.]+)?"),
    "sglang": re.compile(r"sglang\.launch_server"),
    "tensorrt_llm": re.compile(r"tensorrt_llm\.commands\.serve"),
}
_IMAGE = re.compile(r"vllm-openai[\w-]*(?:[:@].*)?")  # its entry point serves
_SERVING = frozenset({"serve", "run-batch"})
_MEASURING = frozenset({"latency", "startup", "throughput"})
_NO_ENGINE = ("disaggregated", "mm_embedding")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_READERS = frozenset({"echo", "grep", "man", "pgrep", "pkill", "printf", "type", "which"})


class Start(NamedTuple):
    """A command that starts an engine."""

    engine_name: str | None
    """None for flags alone."""
    line: int
    words: list[Word]
    """Those behind the name of the program."""


def starts(commands: list[list[Word]]) -> Iterator[Start]:
    """The commands that start an engine; what asks or measures a running server does not."""
    for words in commands:
        first = next((word for word in words if not _ASSIGNMENT.fullmatch(word.text)), None)
        if first is None or first.program in _READERS:
            continue
        texts = {word.text for word in words}
        for index, word in enumerate(words):
            found = _engine(words, index, texts)
            if found is not None:
                name, behind = found
                yield Start(name, word.line, words[behind:])
                break


def _engine(words: list[Word], index: int, texts: set[str]) -> tuple[str, int] | None:
    """The engine that the word at an index starts, and the index of the first argument."""
    word = words[index]
    behind, further = (words[at].text if at < len(words) else "" for at in (index + 1, index + 2))
    if word.text == "-m":
        for name, module in _MODULES.items():
            if module.fullmatch(behind):
                return name, index + (3 if further in _SERVING else 2)
    elif word.program in ("vllm", "sglang") and behind in _SERVING:
        return word.program, index + 2
    elif word.program == "vllm" and behind == "bench" and further in _MEASURING:
        return "vllm", index + 3
    elif word.program == "trtllm-serve" and not behind.startswith(_NO_ENGINE):
        return "tensorrt_llm", index + (2 if behind in _SERVING else 1)
    elif word.program == "trtllm-bench" and not texts.isdisjoint(_MEASURING):
        return "tensorrt_llm", index + 1
    elif _IMAGE.fullmatch(word.program) and "run" in texts:
        return "vllm", index + (2 if behind in _SERVING else 1)
    return None
