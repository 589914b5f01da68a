"""A shell script as the words of its commands, each with its line.

Quotes, comments, continued lines, redirections and heredocs are those of a shell. Nothing is
expanded: a word that a shell would change is marked.
"""

import re
from collections.abc import Iterator
from itertools import dropwhile, pairwise
from typing import NamedTuple

from .._errors import show
from .._findings import InputError

_NESTED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"  # brackets in brackets
_TOKEN = re.compile(
    r"""(?P<newline>\n) | (?P<gap>[ \t\r]+) | (?P<joined>\\\r?\n) | (?P<comment>\#[^\n]*)
    | (?P<expanded>[$<>]\(NESTED\) | \$\{[^}\n]{0,256}\} | `[^`]*` | \$(?![('"]))
    | (?P<redirect>(?:[0-9]+|&)?(?:<<<|<<-?|[<>]&|<>|>>|>\||[<>]))
    | (?P<end>[|;&()]+)
    | \$?'(?P<single>[^']*)' | \$?"(?P<double>(?:[^"\\]|\\.)*)"
    | \\(?P<escaped>.) | (?P<plain>[^ \t\r\n'"\\|;&<>()`$]+)""".replace("NESTED", _NESTED),
    re.VERBOSE | re.DOTALL,
)
_PIECES = ("single", "double", "expanded", "escaped", "plain")
_ESCAPE = re.compile(r'\\(["\\$`])|\\\r?\n')  # what a backslash escapes in double quotes
_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*[$`]")
_SHELLS = frozenset({"bash", "sh", "zsh", "ssh"})
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")
_MOST_NESTED = 4
_LARGEST = 2**18


class Word(NamedTuple):
    """A word of a command."""

    text: str
    line: int
    opens: bool = False
    """Whether it is the first of its line."""
    expands: bool = False
    """Whether a shell puts the value of a variable or the output of a command into it."""

    @property
    def program(self) -> str:
        """The word without the directory in front of it."""
        return self.text.rpartition("/")[2]


class _Heredoc(NamedTuple):
    text: str
    line: int
    end: int


def commands_of(text: str, name: str, first_line: int = 1, depth: int = 0) -> list[list[Word]]:
    """Words of each command. A line that starts with a flag goes on with the command before.

    Raises:
        InputError: a quote, a substitution or a heredoc that is not closed, or far too much text.

    """
    if len(text) > _LARGEST or depth > _MOST_NESTED:
        fact = f"has more than the {_LARGEST} characters of a command, or shells in shells"
        raise InputError(f"{name}: {fact}; pass the command of an engine alone")
    commands: list[list[Word]] = [[]]
    for word in _words(text, name, first_line):
        if isinstance(word, _Heredoc):
            if any(before.program in _SHELLS for before in commands[-1]):
                commands += [*commands_of(word.text, name, word.line, depth + 1), []]
            continue
        if word is None or (word.opens and not word.text.startswith("-")):
            commands.append([])
        if word is not None:
            commands[-1].append(word)
    for words in [*commands]:
        for script in _scripts(words):
            commands += commands_of(script.text, name, script.line, depth + 1)
    return commands


def _scripts(words: list[Word]) -> Iterator[Word]:
    """What stands behind the option of a shell that takes a script."""
    behind = dropwhile(lambda word: word.program not in _SHELLS, words)
    for option, script in pairwise(behind):
        if _SCRIPT_OPTION.fullmatch(option.text):
            yield script


def _words(text: str, name: str, first_line: int) -> Iterator[Word | _Heredoc | None]:
    """Words as a shell splits them; None where a command ends within a line; bodies of heredocs."""
    text += "\n\n"
    pieces: list[str] = []
    delimiters: list[tuple[str, str]] = []
    redirect = ""
    at, line, start, opens, expands = 0, first_line, first_line, True, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            what = "a command in $( )" if text.startswith("$(", at) else "a quote"
            raise _unclosed(what, name, line)
        kind, piece = str(token.lastgroup), token[0]
        if kind == "comment" and pieces:  # only at the beginning of a word
            kind, piece = "plain", "#"
        if kind in _PIECES:
            start = start if pieces else line
            pieces.append(piece if kind in ("plain", "expanded") else _unquoted(token))
            expands |= kind == "expanded" or (
                kind == "double" and _EXPANDS.search(piece) is not None
            )
        elif kind != "joined" and pieces:
            word = Word("".join(pieces), start, opens, expands)
            if not redirect:
                yield word
                opens = False
            else:
                delimiters += _delimiters(redirect, word, name)
            pieces, expands, redirect = [], False, ""
        if kind == "redirect":
            redirect = piece.lstrip("0123456789&")
        elif kind == "end":
            yield None
        at, line = at + len(piece), line + piece.count("\n")
        if kind == "newline":
            opens, redirect = True, ""
            for heredoc in _heredocs(text, at, line, delimiters, name):
                yield heredoc
                at, line = heredoc.end, line + text.count("\n", at, heredoc.end)
            delimiters = []


def _delimiters(redirect: str, word: Word, name: str) -> list[tuple[str, str]]:
    """The operator and the delimiter of a heredoc, none for another redirection.

    Raises:
        InputError: a flag stands where a file is named, as behind ``<value>``.

    """
    if redirect not in ("<<", "<<-") and word.text.startswith("--"):
        fact = f"{redirect} leads to {show(word.text)}, which is no file"
        raise InputError(f"{name}:{word.line}: {fact}; write a value itself, not <value>")
    return [(redirect, word.text)] if redirect in ("<<", "<<-") else []


def _unclosed(what: str, name: str, line: int) -> InputError:
    fact = f"{what} is not closed"
    return InputError(f"{name}:{line}: {fact}; close it, or escape it with a backslash")


def _unquoted(token: re.Match[str]) -> str:
    content = token[str(token.lastgroup)]
    return _ESCAPE.sub(r"\1", content) if token.lastgroup == "double" else content


def _heredocs(
    text: str, at: int, line: int, delimiters: list[tuple[str, str]], name: str
) -> Iterator[_Heredoc]:
    """The heredocs that begin on a line and end with these delimiters, one behind the other."""
    for operator, delimiter in delimiters:
        tabs = r"\t*" if operator == "<<-" else ""
        pattern = rf"(?P<body>(?:.*\n)*?){tabs}{re.escape(delimiter)}\r?\n"
        found = re.compile(pattern).match(text, at)
        if found is None:
            raise _unclosed(f"the heredoc up to {show(delimiter)}", name, line)
        yield _Heredoc(found["body"], line, found.end())
        at, line = found.end(), line + found[0].count("\n")
