"""Requests of the reference executor: what comes in, what comes out, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from specmeta import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specmeta import Deployment, RequestId, SeqSlot

FinishReason = Literal["length", "stop", "cancelled"]
"""Why a request ended: its `max_new_tokens`, one of its stop tokens, or `cancel`."""


def _as_tuple(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


@attrs.frozen
class Request:
    """A prompt to continue. What it says is checked when it is submitted."""

    request_id: RequestId
    """Identity: at least 1, below the ids that are reserved for padding, unique among the live."""
    prompt_token_ids: tuple[int, ...] = attrs.field(converter=_as_tuple)
    """The prompt, at least one token of the target's vocabulary."""
    max_new_tokens: int
    """Tokens to generate at most."""
    stop_token_ids: tuple[int, ...] = attrs.field(converter=_as_tuple, default=())
    """Tokens that end the output; the one that did is its last."""
    sampling: SamplingParams | None = None
    """How its tokens are drawn: needed exactly where the deployment uses rejection sampling."""


@attrs.frozen
class RequestResult:
    """Output of a request, and how many tokens each of its decode iterations committed."""

    request_id: RequestId
    token_ids: tuple[int, ...]
    """The generated tokens, the stop token included."""
    accepted_lengths: tuple[int, ...]
    """Tokens that each decode iteration committed, bonus token included: 1 to K + 1. Those that the
    request's limit or stop token cut off are counted too: a limit does not bias the mean."""
    finish_reason: FinishReason

    @property
    def decode_iterations(self) -> int:
        """Target forwards after the prefill."""
        return len(self.accepted_lengths)

    @property
    def decoded_tokens(self) -> int:
        """Tokens that the decode iterations committed; the token of the prefill is not one."""
        return sum(self.accepted_lengths)

    @property
    def accept_length(self) -> float:
        """Decoded tokens a decode iteration (TensorRT-LLM's `avg_decoded_tokens_per_iter`).

        Raises:
            ValueError: the prefill's token already ended the request.

        """
        if not self.accepted_lengths:
            raise ValueError(
                f"request {self.request_id} ended without a decode iteration, so it has no accept "
                "length; ask for at least 2 new tokens, or leave the request out of the mean"
            )
        return self.decoded_tokens / self.decode_iterations


class ExecutorStoppedError(RuntimeError):
    """A step failed half-way, so the executor stopped: see `unfinished` and `__cause__`.

    The state of the worker is unknown from then on: build a new worker and executor and submit the
    unfinished requests again.
    """

    def __init__(
        self, unfinished: Sequence[Request], finished: Sequence[RequestResult] = ()
    ) -> None:
        ids = [request.request_id for request in unfinished]
        super().__init__(
            f"the executor stopped with {len(ids)} unfinished requests {ids}; submit them (see "
            ".unfinished) to a new executor with a new worker"
        )
        self.unfinished = tuple(unfinished)
        """The requests that were accepted and have no result."""
        self.finished = tuple(finished)
        """The results of the same call to `run` that were complete."""


@attrs.frozen
class WaitingRequest:
    """A request without a slot, and what it had when it was preempted: nothing, where it is new."""

    request: Request
    tokens: tuple[int, ...] = ()
    accepted_lengths: tuple[int, ...] = ()

    def result(self, reason: FinishReason) -> RequestResult:
        """The output so far."""
        return _result(self, reason)


@attrs.define(eq=False)
class RequestState:
    """A live request inside an executor."""

    request: Request
    slot: SeqSlot
    """Row of the target's KV store."""
    tokens: list[int] = attrs.Factory(list)
    """Generated so far, uncut: the last is the anchor of the next decode iteration."""
    accepted_lengths: list[int] = attrs.Factory(list)
    drafts: list[int] = attrs.Factory(list)
    """Drafts behind the last token."""
    confidence: list[float] = attrs.Factory(list)
    """Of each draft, given those before it; empty where the worker does not judge them."""

    @property
    def context_length(self) -> int:
        """Positions that precede the next decode iteration: the prompt, and after a preemption the
        tokens but the last, which is its anchor.
        """
        return len(self.request.prompt_token_ids) + max(0, len(self.tokens) - 1)

    def known(self, start: int, stop: int) -> list[int]:
        """Tokens of the sequence, prompt and output, at these positions."""
        prompt = self.request.prompt_token_ids
        split = len(prompt)
        if stop <= split:
            return list(prompt[start:stop])
        return [*prompt[start:], *self.tokens[max(0, start - split) : stop - split]]

    def suspended(self) -> WaitingRequest:
        """What is kept of it when its slot is taken away."""
        return WaitingRequest(self.request, tuple(self.tokens), tuple(self.accepted_lengths))

    def finish_reason(self) -> FinishReason | None:
        """Why the request is complete; None while it is not. Cuts the tokens at the stop token."""
        request = self.request
        if request.stop_token_ids:
            # Only the tokens of the last iteration can be new stop tokens.
            newest = self.accepted_lengths[-1] if self.accepted_lengths else 1
            for index in range(max(0, len(self.tokens) - newest), len(self.tokens)):
                if index >= request.max_new_tokens:
                    break
                if self.tokens[index] in request.stop_token_ids:
                    del self.tokens[index + 1 :]
                    return "stop"
        return "length" if len(self.tokens) >= request.max_new_tokens else None

    def result(self, reason: FinishReason) -> RequestResult:
        """The output within the request's limit."""
        return _result(self, reason)


def _result(source: RequestState | WaitingRequest, reason: FinishReason) -> RequestResult:
    return RequestResult(
        request_id=source.request.request_id,
        token_ids=tuple(source.tokens[: source.request.max_new_tokens]),
        accepted_lengths=tuple(source.accepted_lengths),
        finish_reason=reason,
    )


def check_id(request_id: object) -> None:
    """Refuse what can be no request id: True would be taken for request 1.

    Raises:
        TypeError: no int.

    """
    if type(request_id) is not int:
        raise TypeError(
            f"request_id: {request_id!r} is {type(request_id).__name__}, not an int; name the "
            "request by the id that it was submitted with"
        )


def check_request(request: Request, deployment: Deployment) -> None:
    """Refuse what the deployment cannot serve, before the request is accepted.

    Raises:
        TypeError: not a `Request`.
        ValueError: names the request, the value and the remedy.

    """
    if type(request) is not Request:
        raise TypeError(f"request: {type(request).__name__} is not a specmeta_workers.Request")
    name = f"request {request.request_id!r}"
    top = 2**64 - 1 - (2 * deployment.decoding.max_draft_len + 1)
    if type(request.request_id) is not int or not 0 < request.request_id < top:
        raise ValueError(
            f"{name}: request_id {request.request_id!r} is not an int from 1 to {top - 1}; give "
            "the request's real id (0 and the top ids belong to dummy rows)"
        )
    if not request.prompt_token_ids:
        raise ValueError(f"{name}: prompt_token_ids is empty; give at least one token")
    vocab = deployment.target.vocab_size
    for field in ("prompt_token_ids", "stop_token_ids"):
        for index, token in enumerate(getattr(request, field)):
            if type(token) is not int or not 0 <= token < vocab:
                raise ValueError(
                    f"{name}: {field}[{index}] is {token!r}, not an int from 0 to {vocab - 1}; "
                    "encode with the target's own tokenizer"
                )
    if type(request.max_new_tokens) is not int or request.max_new_tokens < 1:
        raise ValueError(
            f"{name}: max_new_tokens {request.max_new_tokens!r} is not an int of at least 1; ask "
            "for at least one token"
        )
    _check_sampling(name, request.sampling, samples=deployment.decoding.use_rejection_sampling)
    total = len(request.prompt_token_ids) + request.max_new_tokens
    if total > deployment.engine.max_seq_len:
        raise ValueError(
            f"{name}: {len(request.prompt_token_ids)} prompt tokens and max_new_tokens "
            f"{request.max_new_tokens} make {total}, above max_seq_len "
            f"{deployment.engine.max_seq_len}; shorten the prompt, ask for fewer tokens or raise "
            "engine.max_seq_len"
        )


def _check_sampling(name: str, sampling: object, *, samples: bool) -> None:
    if sampling is not None and type(sampling) is not SamplingParams:
        raise ValueError(
            f"{name}: sampling is {type(sampling).__name__}; pass specmeta.SamplingParams"
        )
    if samples and sampling is None:
        raise ValueError(
            f"{name}: sampling is None, but the deployment has decoding.use_rejection_sampling; "
            "give SamplingParams with a seed of the request's own (temperature 0 is greedy)"
        )
    if not samples and sampling is not None:
        raise ValueError(
            f"{name}: sampling is given, but the deployment accepts drafts strictly, which is "
            "greedy; set decoding.use_rejection_sampling, or leave sampling out"
        )
