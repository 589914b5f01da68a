"""What an accept-length run measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from specmeta import DSparkDrafterConfig, SamplingParams

from .._methods import METHODS, most_drafts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from specmeta import DecodingType

    from .._pairs import Pair

Mode = Literal["aggregated", "disaggregated"]
"""Prefill and decoding on one executor, or on two servers that exchange messages."""

Fault = Literal["default-slot"]
"""A deliberately broken worker, see `with_default_slot`."""

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


def _names(
    known: Sequence[str],
) -> Callable[[object, attrs.Attribute[Any], tuple[str, ...]], None]:
    def check(_: object, attribute: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
        for index, item in enumerate(value):
            if item not in known:
                raise ValueError(
                    f"{attribute.name}[{index}]: {item!r} is none of {', '.join(known)}"
                )
        if not value or len(set(value)) != len(value):
            raise ValueError(f"{attribute.name}: {value}; give each once, and at least one")

    return check


def _fault(_: object, __: object, value: object) -> None:
    if value not in (None, "default-slot"):
        raise ValueError(f"fault: {value!r} is unknown; the only one is 'default-slot'")


@attrs.frozen(kw_only=True)
class AcceptLengthOptions:
    """The axes and the size of a run; the defaults are those of `specmeta bench accept-length`.

    Raises:
        ValueError: a value that cannot be run, named with its index.

    """

    decoding_types: tuple[DecodingType, ...] = attrs.field(
        default=("DSpark", "DFlash", "MTP"), validator=_names(tuple(METHODS))
    )
    draft_lens: tuple[int, ...] = attrs.field(default=(1, 3, 5, 7), validator=_axis(1))
    batches: tuple[int, ...] = attrs.field(default=(1, 16), validator=_axis(1))
    modes: tuple[Mode, ...] = attrs.field(default=MODES, validator=_names(MODES))
    requests: int = attrs.field(default=64, validator=_count)
    new_tokens: int = attrs.field(default=96, validator=_count)
    graph_batch_sizes: tuple[int, ...] = ()
    """Graph buckets to which generation batches are padded, in shapes that run eagerly here."""
    full: bool = False
    """Serve every draft length in every mode; otherwise modes after the first have the first and
    the last draft length alone, which keeps the default run short."""
    temperature: float | None = None
    """None decodes greedily; a number samples, with drafts accepted by rejection sampling."""
    top_k: int | None = None
    top_p: float = 1.0
    confidence_threshold: float | None = None
    """Confidence below which DSpark's drafts are not verified; None verifies all."""
    processes: int = attrs.field(default=1, validator=_count)
    """Processes of one thread that share the prompts; 1 serves here, with torch's threads."""
    fault: Fault | None = attrs.field(default=None, validator=_fault)

    def __attrs_post_init__(self) -> None:
        self._check_graph_sizes()
        if self.temperature is None:
            for name, value, unset in (("top_k", self.top_k, None), ("top_p", self.top_p, 1.0)):
                if value != unset:
                    raise ValueError(
                        f"{name}: {value} without a temperature, but greedy decoding samples "
                        "nothing; give a temperature too"
                    )
        else:
            self.sampling(seed=0)
        if self.confidence_threshold is not None:
            for index, name in enumerate(self.decoding_types):
                if name != "DSpark":
                    raise ValueError(
                        f"decoding_types[{index}]: {name} has no confidence head, so nothing would "
                        "come of the confidence threshold; measure DSpark alone with it"
                    )
            METHODS["DSpark"].decoding(max_draft_len=1, **self.decoding())

    def sampling(self, seed: int) -> SamplingParams | None:
        """How a request of this seed is sampled; None is greedily."""
        if self.temperature is None:
            return None
        return SamplingParams(
            temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=seed
        )

    def decoding(self) -> dict[str, Any]:
        """The fields of the decoding config that are not its length."""
        fields: dict[str, Any] = {"use_rejection_sampling": self.temperature is not None}
        if self.confidence_threshold is not None:
            fields["confidence_threshold"] = self.confidence_threshold
        return fields

    def draft_lens_of(self, mode: Mode) -> tuple[int, ...]:
        """The draft lengths that a mode serves, see `full`."""
        if self.full or mode == self.modes[0]:
            return self.draft_lens
        return tuple(dict.fromkeys((self.draft_lens[0], self.draft_lens[-1])))

    def processes_for(self, cores: int) -> int:
        """As many processes as cores, but so that each can fill its largest batch twice."""
        return max(1, min(cores, self.requests // (2 * max(self.batches))))

    def check(self, pairs: Sequence[Pair]) -> None:
        """Refuse what these pairs, one a decoding type on one target, cannot serve.

        Raises:
            ValueError: pairs of other types or of several targets, more requests than prompts, a
                draft length beyond a drafter's block, a confidence threshold without its head, one
                new token, which leaves nothing to decode, or more than the positions allow.

        """
        given = tuple(pair.deployment.decoding_type for pair in pairs)
        if given != self.decoding_types:
            raise ValueError(
                f"decoding_types: {', '.join(self.decoding_types)}, but the pairs are for "
                f"{', '.join(given)}; give one pair a type, in this order"
            )
        first = pairs[0]
        if any(pair.target is not first.target for pair in pairs):
            raise ValueError(
                "pairs: their targets are several objects, so their speeds would not compare; "
                "build the others with Pair.with_drafter"
            )
        if self.requests > len(first.prompts):
            raise ValueError(
                f"requests: {self.requests} is above the number of prompts, {len(first.prompts)}; "
                "ask for fewer, or give more prompts"
            )
        for pair in pairs:
            self._check_drafter(pair)
        if self.new_tokens < 2:
            raise ValueError(
                f"new_tokens: {self.new_tokens} is the prefill's token alone; ask for at least 2"
            )
        prompt = max(len(prompt.token_ids) for prompt in first.prompts[: self.requests])
        models = (first.deployment.target, *(pair.deployment.drafter for pair in pairs))
        stated = [model.max_position_embeddings for model in models]
        positions = min((limit for limit in stated if limit is not None), default=2**31)
        most = positions - prompt - max(self.draft_lens) - 1
        if most < 2:
            longest = max(self.draft_lens)
            raise ValueError(
                f"draft_lens[{self.draft_lens.index(longest)}]: {longest} behind a prompt of "
                f"{prompt} leaves nothing of the models' {positions} positions; give a shorter one"
            )
        if self.new_tokens > most:
            raise ValueError(
                f"new_tokens: {self.new_tokens} behind a prompt of {prompt} exceeds the models' "
                f"{positions} positions; ask for at most {most}"
            )

    def _check_drafter(self, pair: Pair) -> None:
        drafter = pair.deployment.drafter
        longest = most_drafts(drafter)
        for index, draft_len in enumerate(self.draft_lens):
            if longest is not None and draft_len > longest:
                raise ValueError(
                    f"draft_lens[{index}]: {draft_len} is above the {longest} drafts of the "
                    f"{drafter.decoding_type} drafter's block; give a shorter one"
                )
        if self.confidence_threshold is not None and not (
            isinstance(drafter, DSparkDrafterConfig) and drafter.enable_confidence_head
        ):
            raise ValueError(
                f"confidence_threshold: {self.confidence_threshold}, but the drafter has no "
                "confidence head; leave it out, or use a drafter that has one"
            )

    def _check_graph_sizes(self) -> None:
        sizes = self.graph_batch_sizes
        for index, size in enumerate(sizes):
            if size <= (sizes[index - 1] if index else 0):
                raise ValueError(
                    f"graph_batch_sizes[{index}]: {size}; give sizes from 1 on that strictly "
                    "increase"
                )
            if size > max(self.batches):
                raise ValueError(
                    f"graph_batch_sizes[{index}]: {size} is above every batch size, so nothing "
                    f"would be padded to it; give at most {max(self.batches)}"
                )
