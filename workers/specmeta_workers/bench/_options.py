"""What an accept-length run measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._pairs import Pair

Mode = Literal["aggregated", "disaggregated"]
"""Prefill and decoding on one executor, or on two servers that exchange messages."""

Fault = Literal["default-slot"]
"""A deliberately broken worker, see `DefaultSlotWorker`."""

MODES: tuple[Mode, ...] = ("aggregated", "disaggregated")


def _axis(minimum: int) -> Callable[[object, attrs.Attribute[tuple[int, ...]], object], None]:
    def check(_: object, attribute: attrs.Attribute[tuple[int, ...]], value: object) -> None:
        assert isinstance(value, tuple)
        if not value:
            raise ValueError(f"{attribute.name}: empty; give at least one value")
        for index, item in enumerate(value):
            if type(item) is not int or item < minimum:
                raise ValueError(
                    f"{attribute.name}[{index}]: {item!r} is not an int of at least {minimum}"
                )
        if len(set(value)) != len(value):
            raise ValueError(f"{attribute.name}: {value} repeats a value; give each once")

    return check


def _count(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{attribute.name}: {value!r} is not an int of at least 1")


def _modes(_: object, __: object, value: tuple[str, ...]) -> None:
    for index, mode in enumerate(value):
        if mode not in MODES:
            raise ValueError(f"modes[{index}]: {mode!r} is none of {', '.join(MODES)}")
    if not value or len(set(value)) != len(value):
        raise ValueError(f"modes: {value}; give each mode once, and at least one")


def _fault(_: object, __: object, value: object) -> None:
    if value not in (None, "default-slot"):
        raise ValueError(f"fault: {value!r} is unknown; the only one is 'default-slot'")


@attrs.frozen(kw_only=True)
class AcceptLengthOptions:
    """The axes and the size of a run; the defaults are those of `specmeta bench accept-length`.

    Raises:
        ValueError: a value that cannot be run, named with its index.

    """

    draft_lens: tuple[int, ...] = attrs.field(default=(1, 3, 5, 7), validator=_axis(1))
    batches: tuple[int, ...] = attrs.field(default=(1, 16), validator=_axis(1))
    modes: tuple[Mode, ...] = attrs.field(default=MODES, validator=_modes)
    requests: int = attrs.field(default=64, validator=_count)
    new_tokens: int = attrs.field(default=96, validator=_count)
    graph_batch_sizes: tuple[int, ...] = ()
    """Graph buckets to which generation batches are padded, in shapes that run eagerly here."""
    processes: int = attrs.field(default=1, validator=_count)
    """Processes of one thread that share the prompts; 1 serves here, with torch's threads."""
    fault: Fault | None = attrs.field(default=None, validator=_fault)

    def processes_for(self, cores: int) -> int:
        """As many processes as cores, but so that each can fill its largest batch twice."""
        return max(1, min(cores, self.requests // (2 * max(self.batches))))

    def check(self, pair: Pair) -> None:
        """Refuse what this pair cannot serve.

        Raises:
            ValueError: more requests than prompts, a draft length beyond the drafter's block, one
                new token, which leaves nothing to decode, more than the positions allow, or graph
                sizes that do not increase.

        """
        if self.requests > len(pair.prompts):
            raise ValueError(
                f"requests: {self.requests}, but there are {len(pair.prompts)} prompts; ask for "
                "fewer, or give more prompts"
            )
        longest = pair.draft_model.config.max_block_drafts
        for index, draft_len in enumerate(self.draft_lens):
            if draft_len > longest:
                raise ValueError(
                    f"draft_lens[{index}]: {draft_len} is above the {longest} drafts of the "
                    "drafter's block; give a shorter one"
                )
        if self.new_tokens < 2:
            raise ValueError(
                f"new_tokens: {self.new_tokens} is the prefill's token alone; ask for at least 2"
            )
        prompt = max(len(prompt.token_ids) for prompt in pair.prompts[: self.requests])
        positions = min(
            pair.deployment.target.max_position_embeddings,
            pair.deployment.drafter.max_position_embeddings,
        )
        most = positions - prompt - max(self.draft_lens) - 1
        if self.new_tokens > most:
            raise ValueError(
                f"new_tokens: {self.new_tokens} behind a prompt of {prompt} exceeds the models' "
                f"{positions} positions; ask for at most {most}"
            )
        sizes = self.graph_batch_sizes
        for index, size in enumerate(sizes):
            if size <= (sizes[index - 1] if index else 0):
                raise ValueError(
                    f"graph_batch_sizes[{index}]: {size}; give sizes from 1 on that strictly "
                    "increase"
                )
