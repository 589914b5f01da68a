"""Sizes of vLLM's graphs, which are numbers of tokens."""

from typing import TypeVar

from .. import _rules as rules
from ._build import Gathered
from ._fields import Section
from ._records import Count, Counts, Found

_Sizes = TypeVar("_Sizes", Count, Counts)


def read_graphs(found: Gathered, section: Section) -> None:
    """Graphs are captured by tokens. Those of a step are rows of K + 1, to which the engine rounds
    the sizes up; larger ones are for steps with prompts.
    """
    sizes, most = _graph_sizes(section)
    if sizes is None:
        if most is not None:
            section.engine_chooses(most)
        return
    tokens = found.engine.get("max_num_tokens")
    if most is not None:
        budget = tokens if type(tokens) is int else most.value
        largest = max((size for size in sizes.value if size <= budget), default=0)
        if min(most.value, budget) != largest:
            fact = f"{most.value} although the largest of {sizes.origin.key} is {largest}"
            section.report(rules.ARGUMENTS_DISAGREE, most, fact)
    rows, length = found.engine.get("max_num_requests"), found.decoding.get("max_draft_len")
    if not isinstance(rows, int) or not isinstance(length, int):
        return
    batches = {-(-size // (length + 1)) for size in sizes.value if size <= rows * (length + 1)}
    counts = Counts(tuple(sorted(batches)), sizes.origin)
    section.put_found(found.engine, ("engine", "cuda_graph_batch_sizes"), counts)


def _graph_sizes(section: Section) -> tuple[Counts | None, Count | None]:
    """The sizes, and the largest one up to which the engine chooses them. Each is given beside the
    object of compilation or in it, or by the older name: there, one size alone is the largest.
    """
    numbers = ("compilation_config", "cc", "O")
    names = [name for name in numbers if not _is_level(section.find(name))]
    compilation = section.section(*names) if names else None
    sizes = [section.wholes("cudagraph_capture_sizes")]
    most = [section.whole("max_cudagraph_capture_size")]
    older = section.wholes("cuda_graph_sizes")
    if older is not None and len(older.value) == 1:
        most.append(Count(older.value[0], older.origin))
    else:
        sizes.append(older)
    if compilation is not None:
        sizes.append(compilation.wholes("cudagraph_capture_sizes"))
        most.append(compilation.whole("max_cudagraph_capture_size"))
    return _only(section, sizes), _only(section, most)


def _is_level(found: Found | None) -> bool:
    """Whether the object of compilation is a number, which says how much is compiled."""
    return found is not None and type(found.value) is int


def _only(section: Section, given: list[_Sizes | None]) -> _Sizes | None:
    found = [one for one in given if one is not None]
    for other in found[1:]:
        fact = f"is given beside {found[0].origin.key}, and the engine refuses both"
        section.report(rules.ARGUMENTS_DISAGREE, other, fact)
    return found[0] if found else None
