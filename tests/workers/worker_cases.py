"""Small deployments, models and steps for the tests of all workers."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs
import torch
from torch import Tensor, nn

from specmeta import DecodingType, Deployment, DSparkDrafterConfig, RequestId
from specmeta.testing import (
    make_deployment,
    make_dflash_metadata,
    make_dspark_metadata,
    make_mtp_metadata,
)
from specmeta_workers import (
    DFlashDraftModel,
    DFlashWorker,
    DraftOutput,
    DSparkDraftModel,
    DSparkWorker,
    MTPDraftModel,
    MTPWorker,
)
from specmeta_workers._acceptance import RejectionAcceptance
from specmeta_workers._draft_worker import DraftWorker

CASES: dict[str, dict[str, Any]] = {
    "DSpark": {"kind": "DSpark"},
    "DSpark with confidence": {"kind": "DSpark", "confidence_threshold": 0.5},
    "DSpark fill-in": {
        "kind": "DSpark",
        "drafter": {"anchor_convention": "mask_at_position", "markov_head_type": "rnn"},
        "max_draft_len": 6,
    },
    "DSpark sampled": {"kind": "DSpark", "use_rejection_sampling": True},
    "DFlash": {"kind": "DFlash"},
    "DFlash from the anchor": {
        "kind": "DFlash",
        "drafter": {"anchor_convention": "anchor_first"},
        "max_draft_len": 7,
    },
    "DFlash sampled": {"kind": "DFlash", "use_rejection_sampling": True},
    "MTP": {"kind": "MTP"},
    "MTP sampled": {"kind": "MTP", "use_rejection_sampling": True},
}
"""Arguments of `make_rig` for every generation path that there is."""
KINDS: tuple[DecodingType, ...] = ("DSpark", "DFlash", "MTP")
_MODELS: dict[str, Any] = {
    "DSpark": DSparkDraftModel,
    "DFlash": DFlashDraftModel,
    "MTP": MTPDraftModel,
}
_WORKERS: dict[str, Any] = {"DSpark": DSparkWorker, "DFlash": DFlashWorker, "MTP": MTPWorker}
_METADATA: dict[str, Any] = {
    "DSpark": make_dspark_metadata,
    "DFlash": make_dflash_metadata,
    "MTP": make_mtp_metadata,
}
Model = TypeVar("Model", bound=nn.Module)


def make_model(config: DSparkDrafterConfig, dtype: str, seed: int = 0) -> DSparkDraftModel:
    """A DSpark model with random weights large enough for every input to matter."""
    return fill(DSparkDraftModel(config), dtype, seed)


def fill(model: Model, dtype: str, seed: int = 0) -> Model:
    """Random weights large enough for every input to matter."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if "norm" in name:
                weight.copy_(1 + 0.1 * noise)
            else:
                weight.copy_(noise * weight.shape[-1] ** -0.5 * 2)
    return model.to(getattr(torch, dtype)).requires_grad_(False)


@attrs.define
class Rig:
    """A worker and what it takes to drive it one step at a time."""

    worker: Any  # each kind takes its own class of metadata
    deployment: Deployment
    generator: torch.Generator

    @property
    def width(self) -> int:
        """K + 1."""
        return self.deployment.decoding.max_draft_len + 1

    def metadata(self, **fields: Any) -> Any:
        """Metadata of this deployment."""
        return _METADATA[self.deployment.decoding_type](self.deployment, **fields)

    def captured(self, tokens: int) -> Tensor:
        """Random target states `[tokens, m * d]`."""
        channels = len(self.deployment.layers_to_capture) * self.deployment.target.hidden_size
        dtype = self.worker.draft_model.dtype
        return torch.randn(tokens, channels, generator=self.generator, dtype=dtype)

    def tokens(self, count: int) -> Tensor:
        """Random token ids `[count]`."""
        vocab = self.deployment.target.vocab_size
        return torch.randint(0, vocab, (count,), generator=self.generator)

    def logits_of(self, tokens: Tensor) -> Tensor:
        """Logits whose greedy tokens are these."""
        vocab = self.deployment.target.vocab_size
        return torch.nn.functional.one_hot(tokens, vocab).to(self.worker.draft_model.dtype)

    def context(
        self, request_id: int, captured: Tensor, *, position: int = 0, bonus: int = 1, **fields: Any
    ) -> DraftOutput:
        """One context chunk of one request, whose next token is `bonus`."""
        return self.contexts({request_id: Chunk(captured, position, bonus)}, **fields)

    def contexts(self, chunks: dict[int, Chunk], **fields: Any) -> DraftOutput:
        """A step of context chunks."""
        lengths = tuple(chunk.captured.shape[0] for chunk in chunks.values())
        metadata = self.metadata(
            request_ids=tuple(map(RequestId, chunks)),
            num_contexts=len(chunks),
            seq_lens=lengths,
            context_positions=tuple(chunk.position for chunk in chunks.values()),
            **fields,
        )
        tokens = [
            self.tokens(len(chunk.captured)) if chunk.tokens is None else chunk.tokens
            for chunk in chunks.values()
        ]
        return self._forward(
            metadata,
            input_ids=torch.cat(tokens),
            logits=self.logits_of(torch.tensor([chunk.bonus for chunk in chunks.values()])),
            captured=torch.cat([chunk.captured for chunk in chunks.values()]),
        )

    def generate(
        self,
        rows: dict[int, Row],
        *,
        num_padding: int = 0,
        padding_states: Tensor | None = None,
        **fields: Any,
    ) -> DraftOutput:
        """One generation step of these requests, and padding."""
        metadata = self.metadata(
            request_ids=tuple(map(RequestId, rows)),
            num_contexts=0,
            seq_lens=tuple(len(row.inputs) for row in rows.values()),
            context_positions=(),
            num_padding=num_padding,
            **fields,
        )
        return self.run(metadata, list(rows.values()), padding_states)

    def run(
        self, metadata: Any, rows: list[Row], padding_states: Tensor | None = None
    ) -> DraftOutput:
        """Run generation rows under given metadata."""
        extra = metadata.num_padding * self.width
        if padding_states is None:
            padding_states = self.captured(extra)
        inputs = [token for row in rows for token in row.inputs]
        targets = [token for row in rows for token in row.targets]
        filler = self.tokens(extra)
        return self._forward(
            metadata,
            input_ids=torch.cat((torch.tensor(inputs, dtype=torch.long), filler)),
            logits=self.logits_of(torch.cat((torch.tensor(targets, dtype=torch.long), filler))),
            captured=torch.cat([*(row.captured for row in rows), padding_states]),
        )

    def _forward(self, metadata: Any, **tensors: Tensor) -> DraftOutput:
        device = self.worker.device
        there = {name: tensor.to(device) for name, tensor in tensors.items()}
        output: DraftOutput = self.worker.forward(metadata, **there)
        return output

    def row(self, accepted: int, length: int | None = None, captured: Tensor | None = None) -> Row:
        """A generation row of which the target accepts `accepted` tokens, the bonus included."""
        length = self.width if length is None else length
        inputs = self.tokens(length).tolist()
        vocab = self.deployment.target.vocab_size
        targets = [*inputs[1:accepted], (inputs[min(accepted, length - 1)] + 1) % vocab]
        targets += self.tokens(length - accepted).tolist()
        return Row(inputs, targets, self.captured(length) if captured is None else captured)


@attrs.frozen
class Chunk:
    """Target states of a context chunk, their first position, the token behind them, and the
    chunk's own tokens, which are random where no drafter reads them.
    """

    captured: Tensor
    position: int
    bonus: int
    tokens: Tensor | None = None


@attrs.frozen
class Row:
    """Input tokens, the target's greedy tokens and its states, for one generation row."""

    inputs: list[int]
    targets: list[int]
    captured: Tensor


def make_rig(
    seed: int = 0,
    dtype: str = "float32",
    kind: DecodingType = "DSpark",
    device: str = "cpu",
    **overrides: Any,
) -> Rig:
    """A worker of a small deployment: for DSpark window 32, block 7, K 7 unless overridden."""
    deployment = make_deployment(kind, dtype=dtype, **overrides)
    model = fill(_MODELS[kind](deployment.drafter), dtype)
    worker = _WORKERS[kind](deployment, model, device)
    return Rig(worker, deployment, torch.Generator().manual_seed(seed + 1))


def buffers_of(worker: DraftWorker[Any]) -> dict[str, Tensor]:
    """Every buffer that is indexed by slot, by its name."""
    buffers = {
        "kv_windows": worker.kv_windows,
        "context_lens": worker.context_lens,
        "valid_lens": worker.valid_lens,
        "position_initialized": worker.position_initialized,
    }
    if isinstance(worker, MTPWorker):
        buffers["hidden_states"] = worker.hidden_states
    return buffers


def draft_probs_of(worker: DraftWorker[Any]) -> dict[str, Tensor]:
    """The buffer that only rejection sampling has; nothing reads its scratch row."""
    acceptance = worker._acceptance
    if isinstance(acceptance, RejectionAcceptance):
        return {"draft_probs": acceptance.draft_probs.probs}
    return {}


def live_rows(worker: DraftWorker[Any]) -> list[Tensor]:
    """Copies of every buffer without its scratch row."""
    buffers = buffers_of(worker) | draft_probs_of(worker)
    return [buffer[:-1].clone() for buffer in buffers.values()]


def state_of(worker: DraftWorker[Any]) -> list[Tensor]:
    """Copies of every buffer and of the mirror, to compare bit for bit."""
    buffers = (*buffers_of(worker).values(), worker.batch_to_slot)
    return [buffer.clone() for buffer in buffers]


def same_state(before: list[Tensor], worker: DraftWorker[Any]) -> bool:
    """Whether every buffer has the bits it had."""
    return all(torch.equal(a, b) for a, b in zip(before, state_of(worker), strict=True))
