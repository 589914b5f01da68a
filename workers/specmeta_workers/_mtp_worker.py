"""The MTP worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from specmeta import MTPSpecMetadata

from ._draft_worker import DraftWorker
from ._mtp_model import MTPDraftModel
from ._windows import StateWindows

if TYPE_CHECKING:
    from specmeta import DecodingType

    from ._choosing import Choose


class MTPWorker(DraftWorker[MTPSpecMetadata]):
    """Verifies a step's drafts, extends the layer's own keys, drafts token after token.

    The cell of a token needs the target's state one position before it, so the state of each slot's
    last token waits in `hidden_states`. See `DraftWorker` for arguments, buffers and errors.
    """

    decoding_type: ClassVar[DecodingType] = "MTP"
    model_type = MTPDraftModel
    windows: StateWindows

    @property
    def hidden_states(self) -> Tensor:
        """Target state of each slot's last committed token `[num_seq_slots + 1, hidden_size]`."""
        return self.windows.hidden

    def _make_windows(self, device: torch.device) -> StateWindows:
        drafter, shape = self.deployment.drafter, self.draft_model.shape
        return StateWindows(
            num_slots=self.deployment.engine.num_seq_slots,
            num_stages=drafter.num_layers,
            window=self.deployment.window_size,
            num_kv_heads=shape.num_key_value_heads,
            head_dim=shape.head_dim,
            hidden_size=drafter.hidden_size,
            dtype=self.draft_model.dtype,
            device=device,
        )

    def _write(
        self,
        slots: Tensor,
        positions: Tensor,
        tokens: Tensor,
        offsets: Tensor,
        input_ids: Tensor,
        captured: Tensor,
    ) -> None:
        # The token at position p completes the cell at p - 1. The first token of a slot completes
        # none: what it writes lies outside the readable columns.
        before = captured.index_select(0, (tokens - 1).clamp(min=0))
        waiting = self.windows.hidden.index_select(0, slots)
        hidden = torch.where((offsets == 0)[:, None], waiting, before)
        cells = positions - 1
        kv = self.draft_model.context_kv(input_ids.index_select(0, tokens), hidden, cells)
        self.windows.write(slots, cells, kv)

    def _remember(self, slots: Tensor, captured: Tensor, last_tokens: Tensor) -> None:
        self.windows.hidden.index_copy_(0, slots, captured.index_select(0, last_tokens))

    def _draft(
        self, slots: Tensor, anchors: Tensor, choose: Choose
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        windows = self.windows
        # The cell of the anchor is the first of the draft, so the readable ones end before it.
        cells = windows.context_lens.index_select(0, slots) - 1
        readable = windows.readable(cells, windows.valid_lens.index_select(0, slots) - 1)
        drafts = self.draft_model.draft(
            windows.hidden.index_select(0, slots),
            anchors,
            cells,
            windows.read(slots),
            readable,
            self.deployment.decoding.max_draft_len,
            choose,
        )
        return self._all_drafts(drafts)
