"""Facts that the user states on the command line."""

from collections.abc import Iterable

from ._files import parse_yaml
from ._findings import InputError
from ._text import named, shown


def parse_facts(texts: Iterable[str]) -> dict[str, object]:
    """Each ``FACT=VALUE`` as name and value, the value read as YAML 1.2.

    Raises:
        InputError: one of them has another form, or a fact is stated twice.

    """
    facts: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip() and value.strip()):
            fact = f"--state {shown(text)} is not FACT=VALUE"
            raise InputError(f"{fact}; write for example --state anchor_convention=anchor_first")
        try:
            parsed = parse_yaml(value.encode("utf-8", "backslashreplace"), name).data
        except InputError:
            fact = f"--state {shown(text)} holds no value or list of YAML"
            raise InputError(f"{fact}; quote it, or correct it") from None
        if isinstance(parsed, dict):
            raise InputError(f"--state {shown(text)} is an object; state each fact by its own name")
        fact = name.strip()
        if fact in facts and not _agree(fact, facts[fact], parsed):
            problem = f"--state {named(name)}: two values are stated"
            raise InputError(f"{problem}; keep the one that is right")
        facts[fact] = parsed
    return facts


def _agree(fact: str, left: object, right: object) -> bool:
    from ._dialects import agree  # only here: nothing else before an input needs the forms

    return agree(fact, left, right)
