"""Which rank does what: context ranks first, then generation ranks."""

from __future__ import annotations

import attrs


def _at_least_one(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{attribute.name}: {value!r} is not an int of at least 1")


@attrs.frozen(kw_only=True)
class Roles:
    """A process a rank: `context_ranks` that run prompts, then `generation_ranks` that decode.

    Rank 0, a context rank, also coordinates: it starts each part and keeps the journal.

    Raises:
        ValueError: a number below 1.

    """

    context_ranks: int = attrs.field(default=1, validator=_at_least_one)
    generation_ranks: int = attrs.field(default=1, validator=_at_least_one)

    @property
    def world_size(self) -> int:
        """All ranks."""
        return self.context_ranks + self.generation_ranks

    @property
    def contexts(self) -> range:
        """Ranks that run prompts."""
        return range(self.context_ranks)

    @property
    def generations(self) -> range:
        """Ranks that decode."""
        return range(self.context_ranks, self.world_size)

    def name(self, rank: int) -> str:
        """The rank as messages call it."""
        return f"{'context' if rank in self.contexts else 'generation'} rank {rank}"

    def generation_rank_of(self, index: int) -> int:
        """The rank that decodes the request at `index` of its part."""
        return self.generations[index % self.generation_ranks]

    def context_rank_of(self, index: int) -> int:
        """The rank that runs its prompt: every context rank serves every generation rank."""
        return (index // self.generation_ranks) % self.context_ranks
