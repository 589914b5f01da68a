"""The flags of a command, as a document.

``--max-num-seqs 16`` becomes the key ``max-num-seqs``, with its line. Values are typed as YAML
types them: numbers, true and false, and JSON in quotes.
"""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from .._errors import show
from .._files import Place, parse_json
from .._findings import InputError, Path
from ._arity import holds_flags, takes
from ._command import Command, Repeat
from ._programs import Start, starts
from ._words import Word, commands_of

_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_DECIMAL = re.compile(
    r"[-+]?[0-9]{1,19}(?:\.[0-9]{0,19}(?:[eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2})"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BLANK = re.compile(r"(?:[^\S\n]*(?:#[^\n]*)?\n)*")
_SCRIPTS = (".sh", ".bash")
_MOST_WORDS = 4096
_MEASURING = ("latency", "throughput")  # of trtllm-bench, behind flags
_OPENINGS = frozenset(
    {
        "cd", "docker", "env", "exec", "export", "if", "mkdir", "nohup", "numactl", "podman",
        "python", "python3", "sglang", "set", "source", "srun", "sudo", "torchrun", "trtllm-bench",
        "trtllm-llmapi-launch", "trtllm-serve", "ulimit", "uv", "vllm",
    }
)  # fmt: skip
_HOW = "write vllm serve, sglang serve or trtllm-serve, or flags alone as --name value"


class _Value(NamedTuple):
    data: object
    place: Place


def is_command(text: str, suffix: str = "") -> bool:
    """Whether a text is a command or its flags, rather than YAML or JSON."""
    if suffix in _SCRIPTS or text.startswith("#!"):
        return True
    blank = _BLANK.match(text)
    line = text[blank.end() if blank else 0 :].partition("\n")[0]
    for word in line.partition("#")[0].split():
        if word == "\\" or _ASSIGNMENT.match(word):
            continue
        if word.startswith("-"):
            return _FLAG.fullmatch(word) is not None
        return word.rpartition("/")[2] in _OPENINGS
    return False


def parse_command(text: str, name: str) -> Command:
    """The flags of the command in a text that starts an engine, or of bare flags.

    Raises:
        InputError: it is no shell script, starts no engine or several, or has a word that belongs
            to no flag.

    """
    start = _start(commands_of(text, name), name)
    words = start.words
    if len(words) > _MOST_WORDS:
        fact = f"the command has {len(words)} words, more than the limit of {_MOST_WORDS}"
        raise InputError(f"{name}: {fact}; pass an engine's")
    uses, unread = _uses(words, name)
    given: dict[Path, list[list[Word]]] = {
        tuple(flag.split(".", 7)): of_flag for flag, of_flag in uses.items()
    }
    values = {path: [_value(use) for use in of_path] for path, of_path in given.items()}
    data: dict[str, object] = {}
    places: dict[str | int, Place] = {}
    for path, of_path in values.items():
        _put(data, places, [*map(str, path)], of_path[-1])
    if not data and not unread:
        raise InputError(f"{name}: holds no flags of an engine; {_HOW}")
    places |= {word.text: Place(word.line) for word in unread}
    return Command(
        name,
        data,
        lambda: Place(start.line, places),
        engine_name=start.engine_name,
        texts={path: use[-1][1].text for path, use in given.items() if len(use[-1]) > 1},
        repeats=_repeats(values),
        expanded=frozenset(
            path for path, use in given.items() if any(word.expands for word in use[-1])
        ),
        unread=tuple(unread),
    )


def _start(commands: list[list[Word]], name: str) -> Start:
    """The one command that starts an engine; else the first one of flags alone."""
    found = [*starts(commands)]
    for one, other in pairwise(found):
        fact = f"line {one.line} starts an engine, and so does line {other.line}"
        raise InputError(f"{name}: {fact}; pass each command in a text of its own")
    if found:
        return found[0]
    alone = (words for words in commands if words and words[0].text.startswith("-"))
    words = next(alone, [])
    return Start(None, words[0].line if words else 1, words)


def _uses(words: list[Word], name: str) -> tuple[dict[str, list[list[Word]]], list[Word]]:
    """What stands behind each flag at every use, the flag itself first, the target's name as if
    it had a flag; and the words that a shell turns into further flags.

    Raises:
        InputError: a word belongs to no flag.

    """
    uses: dict[str, list[list[Word]]] = {}
    unread: list[Word] = []
    flag, use, model = "", [], None
    for word in words:
        match = _FLAG.fullmatch(word.text)
        if match is not None:
            flag, use = match["name"], [word]
            uses.setdefault(flag, []).append(use)
            if match["value"] is not None:
                use.append(word._replace(text=match["value"]))
                use, flag = [], ""
        elif word.expands and holds_flags(word.text):
            unread.append(word)
        elif use and takes(flag, len(use) - 1, word.text):
            use.append(word)
        elif model is None and word.text not in _MEASURING:
            model = word
            uses.setdefault("model", []).append([word, word])
        elif word.expands:
            unread.append(word)
        elif model is not None and word.text != "--":
            fact = f"{show(word.text)} stands behind no flag, and the target is {show(model.text)}"
            raise InputError(f"{name}:{word.line}: {fact}; write it behind its flag, or remove it")
    return uses, unread


def _repeats(values: Mapping[Path, list[_Value]]) -> dict[Path, Repeat]:
    """Flags with different values, and objects that are given both as a whole and by parts."""
    repeats: dict[Path, Repeat] = {}
    for path, (first, *others) in values.items():
        if any(json.dumps(other.data) != json.dumps(first.data) for other in others):
            repeats[path] = Repeat(first.data, first.place.line)
        for end in range(1, len(path)):
            whole = values.get(path[:end])
            if whole is not None:
                repeats[path[:end]] = Repeat(whole[0].data, whole[0].place.line)
    return repeats


def _value(words: list[Word]) -> _Value:
    """The value of a flag: true where nothing stands behind it, a list where several words do."""
    flag, *given = words
    typed = [_typed(word) for word in given]
    if not typed:
        return _Value(data=True, place=Place(flag.line))
    if len(typed) == 1:
        return typed[0]._replace(place=typed[0].place._replace(line=flag.line))
    inner: dict[str | int, Place] = {index: value.place for index, value in enumerate(typed)}
    return _Value([value.data for value in typed], Place(flag.line, inner))


def _typed(word: Word) -> _Value:
    text, place = word.text, Place(word.line)
    if text[:1] in ("{", "["):
        try:
            document = parse_json(text.encode(), "", first_line=word.line)
        except InputError:  # told where an object is needed, as other flags may take any text
            return _Value(text, place)
        return _Value(document.data, document.places() if document.places else place)
    if text.lower() in ("true", "false"):
        return _Value(text.lower() == "true", place)
    if _INTEGER.fullmatch(text):
        return _Value(int(text), place)
    return _Value(float(text) if _DECIMAL.fullmatch(text) else text, place)


def _put(
    data: dict[str, object], places: dict[str | int, Place], path: list[str], value: _Value
) -> None:
    """Set the value at a dotted name, in the object that another flag may have begun."""
    key, *rest = path
    before, inner = data.get(key), value.data
    fields = before if isinstance(before, dict) else {}
    children: dict[str | int, Place] = {**places[key].children} if fields else {}
    if rest:
        _put(fields, children, rest, value)
    elif isinstance(inner, dict):
        fields |= inner
        children |= value.place.children
    else:
        data[key], places[key] = inner, value.place
        return
    data[key], places[key] = fields, value.place._replace(children=children)
