"""The message between a context server and a generation server."""

from __future__ import annotations

import json
from typing import Any

import attrs
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from specmeta import RequestId, SamplingParams

from ._requests import Request

_FORMAT = "specmeta.handover.v2"
_TENSORS = {"prompt_token_ids", "stop_token_ids", "keys", "values", "captured"}
_NUMBERS = {
    "request_id",
    "max_new_tokens",
    "sampling",
    "first_token",
    "first_position",
    "target_layer_ids",
}


@attrs.frozen(eq=False)
class Handover:
    """A request whose prompt has run elsewhere: all that decoding it needs, and nothing shared.

    Raises:
        ValueError: parts that do not fit each other.

    """

    request: Request
    """The request as it was submitted: its real id, prompt, limit, stop tokens, sampling."""
    first_token: int
    """The token that the prefill produced; not yet in the KV cache, and not the request's last."""
    keys: Tensor
    """Target keys of the prompt `[layers, kv_heads, prompt, head_dim]`."""
    values: Tensor
    """Target values of the prompt, shaped as `keys`."""
    captured: Tensor
    """Captured hidden states `[n, m * d]` of the last n prompt positions, n at most the window."""
    first_position: int
    """Absolute position of the first row of `captured`; its last row is the prompt's last token."""
    target_layer_ids: tuple[int, ...]
    """The layers in `captured`: those of another drafter may have the same shape."""

    def __attrs_post_init__(self) -> None:
        name = f"handover of request {self.request.request_id}"
        prompt = len(self.request.prompt_token_ids)
        if self.keys.dim() != 4 or self.keys.shape[2] != prompt:
            raise ValueError(
                f"{name}: keys of shape {tuple(self.keys.shape)} for a prompt of {prompt} tokens; "
                "hand over the keys of the whole prompt"
            )
        if self.values.shape != self.keys.shape or self.values.dtype != self.keys.dtype:
            raise ValueError(
                f"{name}: values of shape {tuple(self.values.shape)} {self.values.dtype} beside "
                f"keys of {tuple(self.keys.shape)} {self.keys.dtype}; hand over both of the whole "
                "prompt, in one precision"
            )
        if type(self.first_position) is not int or not 0 <= self.first_position < prompt:
            raise ValueError(
                f"{name}: first_position {self.first_position} is not in the prompt of {prompt} "
                "tokens; give the absolute position of the first captured state"
            )
        if self.captured.dim() != 2 or self.captured.shape[0] != prompt - self.first_position:
            raise ValueError(
                f"{name}: captured of shape {tuple(self.captured.shape)}, expected "
                f"{prompt - self.first_position} rows; hand over every position from "
                f"first_position {self.first_position} to the prompt's end"
            )
        limit = self.request.max_new_tokens
        last = self.first_token in self.request.stop_token_ids
        if last or (type(limit) is int and limit < 2):  # any other type is refused at receipt
            raise ValueError(
                f"{name}: its first token ends it; return its result instead of handing it over"
            )

    def to_bytes(self) -> bytes:
        """The message in the safetensors format."""
        request = self.request
        tensors = {
            "prompt_token_ids": torch.tensor(request.prompt_token_ids, dtype=torch.int64),
            "stop_token_ids": torch.tensor(request.stop_token_ids, dtype=torch.int64),
            "keys": self.keys.cpu().contiguous(),
            "values": self.values.cpu().contiguous(),
            "captured": self.captured.cpu().contiguous(),
        }
        # Ids need 64 unsigned bits, which no tensor type of every torch release holds: as text.
        numbers = {
            "request_id": request.request_id,
            "max_new_tokens": request.max_new_tokens,
            "sampling": None if request.sampling is None else request.sampling.model_dump(),
            "first_token": self.first_token,
            "first_position": self.first_position,
            "target_layer_ids": self.target_layer_ids,
        }
        metadata = {"format": _FORMAT, "handover": json.dumps(numbers)}
        return safetensors.torch.save(tensors, metadata)

    @classmethod
    def from_bytes(cls, message: bytes) -> Handover:
        """Read a message; its tensors are new and on the CPU.

        Raises:
            ValueError: not a hand-over message, or one with parts that do not fit each other.

        """
        try:
            tensors = safetensors.torch.load(message)
            metadata: dict[str, Any] = json.loads(
                message[8 : 8 + int.from_bytes(message[:8], "little")]
            )["__metadata__"]
            numbers = dict(json.loads(metadata["handover"]))
        except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                "message: not a specmeta hand-over; pass the bytes of Handover.to_bytes unchanged"
            ) from error
        found, expected = {*tensors, *numbers}, _TENSORS | _NUMBERS
        if metadata.get("format") != _FORMAT or found != expected:
            raise ValueError(
                f"message: format {metadata.get('format')!r} with {sorted(found)}, expected "
                f"{_FORMAT!r} with {sorted(expected)}; run the same release on both servers"
            )
        for name in ("prompt_token_ids", "stop_token_ids"):
            if (given := tensors[name]).dim() != 1 or given.dtype != torch.int64:
                raise ValueError(
                    f"message: {name} is {list(given.shape)} {given.dtype}, expected a row of "
                    "int64; pass the bytes of Handover.to_bytes unchanged"
                )
        layers = numbers["target_layer_ids"]
        return cls(
            request=Request(
                request_id=RequestId(numbers["request_id"]),
                prompt_token_ids=tensors["prompt_token_ids"].tolist(),
                max_new_tokens=numbers["max_new_tokens"],
                stop_token_ids=tensors["stop_token_ids"].tolist(),
                sampling=_sampling(numbers["sampling"]),
            ),
            first_token=numbers["first_token"],
            keys=tensors["keys"],
            values=tensors["values"],
            captured=tensors["captured"],
            first_position=numbers["first_position"],
            target_layer_ids=tuple(layers) if isinstance(layers, list) else layers,
        )


def _sampling(fields: object) -> SamplingParams | None:
    """Its errors are a `ValueError` and name the field."""
    return None if fields is None else SamplingParams.model_validate(fields)
