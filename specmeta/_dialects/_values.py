"""A value that a file or the user states, and how two of them compare."""

from typing import NamedTuple, get_args

from .._errors import show
from .._findings import Origin
from .._types import AnchorConvention, MarkovHeadType, WindowCausality

_CHOICES: dict[str, tuple[object, ...]] = {
    "anchor_convention": get_args(AnchorConvention),
    "window_causality": get_args(WindowCausality),
    "markov_head_type": get_args(MarkovHeadType),
}
_NUMBERS = ("rms_norm_eps", "rope_theta")
_WIDEST = 64
_LONGEST = 16


class Found(NamedTuple):
    """A fact, and where it was written."""

    value: object
    origin: Origin
    convention: str | None = None
    stated: bool = False
    """Whether the user states it, and not the file."""


def as_fact(fact: str, value: object) -> object:
    """A value in the form that the models take: tuples, and real numbers where the fact is one."""
    if isinstance(value, list):
        return tuple(value)
    if fact in _NUMBERS and type(value) is int and value.bit_length() <= _WIDEST:
        return float(value)
    return value


def same(left: object, right: object) -> bool:
    """Whether two values are equal and of one type: 7 is not 7.0, and 1 is not true."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def is_choice(fact: str, value: object) -> bool:
    """Whether a fact can have this value, where it is one of few words."""
    return fact not in _CHOICES or value in _CHOICES[fact]


def agree(fact: str, left: object, right: object) -> bool:
    """Whether two values that are stated of a fact are the same."""
    return same(as_fact(fact, left), as_fact(fact, right))


def shown(value: object, depth: int = 2) -> str:
    """Short text of a value; a short list as JSON has it, as are those in it."""
    if isinstance(value, list | tuple) and len(value) <= _LONGEST and depth:
        return f"[{', '.join(shown(item, depth - 1) for item in value)}]"
    return show(value)


def in_one_convention(found: Found, first: Found) -> object:
    """The value in ids of layer outputs; what the user states is in the convention of the file."""
    convention = first.convention if found.stated else found.convention
    if convention == "input_of_layer" and isinstance(found.value, tuple):
        return tuple(i - 1 if type(i) is int else i for i in found.value)
    return found.value
