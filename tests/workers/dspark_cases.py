"""Small DSpark deployments, models and steps for the worker tests."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from torch import Tensor

from specmeta import Deployment, DSparkDrafterConfig, DSparkSpecMetadata, RequestId
from specmeta.testing import make_deployment, make_dspark_metadata
from specmeta_workers import DraftOutput, DSparkDraftModel, DSparkWorker


def make_model(config: DSparkDrafterConfig, dtype: str, seed: int = 0) -> DSparkDraftModel:
    """A model with random weights large enough for every input to matter."""
    generator = torch.Generator().manual_seed(seed)
    model = DSparkDraftModel(config)
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

    worker: DSparkWorker
    deployment: Deployment
    generator: torch.Generator

    @property
    def width(self) -> int:
        """K + 1."""
        return self.deployment.decoding.max_draft_len + 1

    def metadata(self, **fields: Any) -> DSparkSpecMetadata:
        """Metadata of this deployment."""
        return make_dspark_metadata(self.deployment, **fields)

    def captured(self, tokens: int) -> Tensor:
        """Random target states `[tokens, m * d]`."""
        drafter = self.deployment.drafter
        assert isinstance(drafter, DSparkDrafterConfig)
        channels = len(drafter.target_layer_ids) * drafter.hidden_size
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
        return self.worker.forward(
            metadata,
            input_ids=self.tokens(sum(lengths)),
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
        self, metadata: DSparkSpecMetadata, rows: list[Row], padding_states: Tensor | None = None
    ) -> DraftOutput:
        """Run generation rows under given metadata."""
        extra = metadata.num_padding * self.width
        if padding_states is None:
            padding_states = self.captured(extra)
        inputs = [token for row in rows for token in row.inputs]
        targets = [token for row in rows for token in row.targets]
        filler = self.tokens(extra)
        return self.worker.forward(
            metadata,
            input_ids=torch.cat((torch.tensor(inputs, dtype=torch.long), filler)),
            logits=self.logits_of(torch.cat((torch.tensor(targets, dtype=torch.long), filler))),
            captured=torch.cat([*(row.captured for row in rows), padding_states]),
        )

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
    """Target states of a context chunk, their first position, and the token behind them."""

    captured: Tensor
    position: int
    bonus: int


@attrs.frozen
class Row:
    """Input tokens, the target's greedy tokens and its states, for one generation row."""

    inputs: list[int]
    targets: list[int]
    captured: Tensor


def make_rig(seed: int = 0, dtype: str = "float32", **overrides: Any) -> Rig:
    """A worker of a small deployment: window 32, block 7, K 7 unless overridden."""
    deployment = make_deployment(dtype=dtype, **overrides)
    assert isinstance(deployment.drafter, DSparkDrafterConfig)
    model = make_model(deployment.drafter, dtype)
    return Rig(DSparkWorker(deployment, model), deployment, torch.Generator().manual_seed(seed + 1))


def state_of(worker: DSparkWorker) -> list[Tensor]:
    """Copies of every buffer, to compare bit for bit."""
    return [
        worker.kv_windows.clone(),
        worker.context_lens.clone(),
        worker.valid_lens.clone(),
        worker.position_initialized.clone(),
        worker.batch_to_slot.clone(),
    ]


def same_state(before: list[Tensor], worker: DSparkWorker) -> bool:
    """Whether every buffer has the bits it had."""
    return all(torch.equal(a, b) for a, b in zip(before, state_of(worker), strict=True))
