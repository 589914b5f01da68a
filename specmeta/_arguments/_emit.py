"""YAML that every reader of 1.1 and of 1.2 takes for the same: few forms, no surprises."""

import re
from collections.abc import Iterator, Mapping

# Words of letters alone may be values of another type: yes, on, null, y ...
_PLAIN = re.compile(r"(?:\.{0,2}/)?[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_.]+)*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def to_yaml(data: Mapping[str, object]) -> str:
    """The text of an object: one key a line, lists of scalars in brackets."""
    return "".join(f"{line}\n" for line in _lines(data, ""))


def _lines(data: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, value in data.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(value, Mapping) and value:
            yield name
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            yield name
            for item in value:
                first, *rest = _lines(item, f"{indent}    ")
                yield f"{indent}  - {first.lstrip()}"
                yield from rest
        else:
            yield f"{name} {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, Mapping):
        return "{}"
    return _scalar(value)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)  # 1e-06 is text to a reader of 1.1, 1.0e-06 is not
        return text if "." in text else text.replace("e", ".0e")
    if isinstance(value, str):
        return _text(value)
    return str(value)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
