"""Text of any origin as messages show it: short, on one line, with nothing a terminal acts on."""

_LONGEST = 60
_LONGEST_NAME = 200


def printable(text: str) -> str:
    """The text with everything escaped that is no visible character or plain space: line breaks,
    controls, changes of direction.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(text: str) -> str:
    """The beginning of a text, quoted and printable."""
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def named(text: str, longest: int = _LONGEST_NAME) -> str:
    """The name of a key or a file, printable; one that is longer without its middle."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}...{text[-half:]}"
    return printable(text)
