"""What the workers of block drafters share: context keys from captured states, one block a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._draft_worker import DraftWorker, Metadata
from ._windows import ContextWindows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ._choosing import Choose
    from ._dense import DenseShape


class BlockWorker(DraftWorker[Metadata]):
    """A worker whose drafter reads projections of the target's captured states."""

    def _make_windows(self, device: torch.device) -> ContextWindows:
        shape: DenseShape = self.draft_model.shape
        return ContextWindows(
            num_slots=self.deployment.engine.num_seq_slots,
            num_stages=self.deployment.drafter.num_layers,
            window=self.deployment.window_size,
            num_kv_heads=shape.num_key_value_heads,
            head_dim=shape.head_dim,
            dtype=self.draft_model.dtype,
            device=device,
        )

    def _write(
        self,
        slots: Tensor,
        positions: Tensor,
        tokens: Tensor,
        offsets: Tensor,  # noqa: ARG002 - MTP reads it
        input_ids: Tensor,  # noqa: ARG002
        captured: Tensor,
    ) -> None:
        model = self.draft_model
        context = model.project_context(captured.index_select(0, tokens))
        self.windows.write(slots, positions, model.context_kv(context, positions))

    def _remember(self, slots: Tensor, captured: Tensor, last_tokens: Tensor) -> None:
        """Nothing: the windows hold all."""

    def _draft(
        self, slots: Tensor, anchors: Tensor, choose: Choose
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        hidden = self._block(slots, anchors)
        length = self.deployment.decoding.max_draft_len
        return self._all_drafts(self.draft_model.draft(hidden, anchors, length, choose))

    def _block(self, slots: Tensor, anchors: Tensor) -> Tensor:
        """Hidden states `[B, block_size, d]` of the block behind each anchor."""
        windows = self.windows
        starts = windows.context_lens.index_select(0, slots)
        readable = windows.readable(starts, windows.valid_lens.index_select(0, slots))
        hidden: Tensor = self.draft_model.block(
            anchors, starts, windows.read(slots), readable, self.deployment.block_size
        )
        return hidden
