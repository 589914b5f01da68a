"""The texts under the fields of a class, read from its source when they are first asked for.

pydantic would read the source of every class when it is made, which is a fifth of the time that
importing this package takes.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

SOURCE = "__source_module__"
"""Class attribute: the module that a class was written in, whatever its public path is."""


@cache
def field_docs(cls: type) -> Mapping[str, str]:
    """Text under each annotated field of a class and of its bases, on one line."""
    found: dict[str, str] = {}
    for part in reversed(cls.__mro__):
        module = part.__dict__.get(SOURCE)
        if module is not None:
            found |= _texts(module).get(part.__name__, {})
    return found


@cache
def _texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """The field texts of each class at the top level of a module."""
    import inspect  # a cost that most processes never need

    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):  # frozen applications and consoles have no source
        return {}
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_fields(node)) for node in classes}


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in pairwise(node.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            yield field.target.id, " ".join(after.value.value.split())
