"""The command that starts an engine, as a document of its flags.

``--max-num-seqs 16`` becomes the key ``max-num-seqs``, with its line. Values are typed as YAML
types them: numbers, true and false, and JSON in quotes.
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .._findings import InputError

if TYPE_CHECKING:
    from .._files import Document, Place

_TOKEN = re.compile(
    r"""(?P<newline>\n) | (?P<gap>[^\S\n]+) | (?P<joined>\\\n) | (?P<comment>\#[^\n]*)
    | (?P<end>[|;&<>]+) | '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)"
    | \\(?P<escaped>.) | (?P<plain>[^\s'"\\|;&<>]+)""",
    re.VERBOSE | re.DOTALL,
)
_PIECES = ("single", "double", "escaped", "plain")
_ESCAPE = re.compile(r'\\(["\\$`])|\\\n')  # what a backslash escapes in double quotes
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_INTEGER = re.compile(r"[-+]?\d{1,19}")
_DECIMAL = re.compile(r"[-+]?\d{1,19}(?:\.\d{0,19}(?:[eE][-+]?\d{1,2})?|[eE][-+]?\d{1,2})")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_MOST_WORDS = 4096
_PROGRAMS = frozenset({"vllm", "sglang", "trtllm-serve", "trtllm-bench"})
_MODULES = frozenset({"sglang.launch_server", "vllm.entrypoints.openai.api_server"})
_VERBS = frozenset({"serve", "bench", "throughput", "latency"})
_OPENINGS = frozenset(
    {"cd", "env", "exec", "export", "nohup", "python", "python3", "set", "source", "sudo", "uv"}
)


class _Word(NamedTuple):
    text: str
    line: int
    opens: bool
    """Whether it is the first of its line."""


class _Value(NamedTuple):
    data: object
    place: "Place"


def is_command(text: str) -> bool:
    """Whether a text is a command or its flags, rather than YAML or JSON."""
    for line in text.splitlines():
        for word in line.partition("#")[0].split():
            if word == "\\" or _ASSIGNMENT.match(word):
                continue
            if word.startswith("-"):
                return _FLAG.fullmatch(word) is not None
            return word.rpartition("/")[2] in _PROGRAMS | _OPENINGS
    return False


def parse_command(text: str, name: str) -> "Document":
    """The flags of the command in a text that starts an engine, or of bare flags, as a document.

    Raises:
        InputError: a quote that is not closed, no flags, or far too many.

    """
    from .._files import Document, Place

    words = _engine_command(_commands(text, name))
    if len(words) > _MOST_WORDS:
        fact = f"the command has {len(words)} words, more than the limit of {_MOST_WORDS}"
        raise InputError(f"{name}: {fact}; pass an engine's")
    model, flags = _flags(words)
    data: dict[str, object] = {}
    places: dict[str | int, Place] = {}
    if model is not None:
        _put(data, places, ["model"], _Value(model.text, Place(model.line)))
    for flag, given in flags.items():
        uses = [_value(words) for words in given]
        different = [*{json.dumps(use.data): use for use in uses}.values()]
        used = different[0]
        if len(different) > 1:  # shown where one value is meant
            used = _Value(_data(different), different[-1].place)
        _put(data, places, flag.split(".", 7), used)
    if not data:
        raise InputError(f"{name}: holds no flags of an engine; write them as --name value")
    return Document(name, data, lambda: Place(1, places))


def _commands(text: str, name: str) -> list[list[_Word]]:
    """Words of each command. A line that starts with a flag goes on with the command before."""
    commands: list[list[_Word]] = [[]]
    for word in _words(text, name):
        if word is None or (word.opens and not word.text.startswith("-")):
            commands.append([])
        if word is not None:
            commands[-1].append(word)
    return commands


def _words(text: str, name: str) -> Iterator[_Word | None]:
    """Words as a shell splits them; None where a command ends within a line."""
    text = text.replace("\r\n", "\n") + "\n\n"
    pieces: list[str] = []
    at, line, start, opens = 0, 1, 1, True
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            fact = "a quote is not closed"
            raise InputError(f"{name}:{line}: {fact}; close it, or escape it with a backslash")
        kind = str(token.lastgroup)
        if kind in _PIECES:
            start = start if pieces else line
            pieces.append(_ESCAPE.sub(r"\1", token[kind]) if kind == "double" else token[kind])
        elif kind != "joined" and pieces:
            yield _Word("".join(pieces), start, opens)
            pieces, opens = [], False
        if kind == "end":
            yield None
        opens = opens or kind == "newline"
        at, line = token.end(), line + token[0].count("\n")


def _engine_command(commands: list[list[_Word]]) -> list[_Word]:
    """What stands behind the name of the program, in the first command that has one; else the
    first command of flags alone.
    """
    for words in commands:
        for index, word in enumerate(words):
            if word.text.rpartition("/")[2] in _PROGRAMS or word.text in _MODULES:
                return words[index + 1 :]
    return next((words for words in commands if words and words[0].text.startswith("-")), [])


def _flags(words: list[_Word]) -> tuple[_Word | None, dict[str, list[list[_Word]]]]:
    """The first word that is no flag, and each flag with what stands behind it at every use, the
    flag itself first.
    """
    model: _Word | None = None
    flags: dict[str, list[list[_Word]]] = {}
    use: list[_Word] | None = None
    for word in words:
        flag = _FLAG.fullmatch(word.text)
        if flag is not None:
            use = [word]
            flags.setdefault(flag["name"], []).append(use)
            if flag["value"] is not None:
                use.append(_Word(flag["value"], word.line, opens=False))
        elif use is not None:
            use.append(word)
        elif model is None and word.text not in _VERBS:
            model = word
    return model, flags


def _value(words: list[_Word]) -> _Value:
    """The value of a flag: true where nothing stands behind it, a list where several words do."""
    from .._files import Place

    flag, *given = words
    typed = [_typed(word) for word in given]
    if not typed:
        return _Value(data=True, place=Place(flag.line))
    if len(typed) == 1:
        return typed[0]._replace(place=typed[0].place._replace(line=flag.line))
    inner: dict[str | int, Place] = {index: value.place for index, value in enumerate(typed)}
    return _Value(_data(typed), Place(flag.line, inner))


def _typed(word: _Word) -> _Value:
    from .._files import Place, parse_json

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


def _data(values: list[_Value]) -> list[object]:
    return [value.data for value in values]


def _put(
    data: dict[str, object], places: "dict[str | int, Place]", path: list[str], value: _Value
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
