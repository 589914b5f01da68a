"""The DSpark worker: verifies a step's drafts, advances the windows, drafts the next block."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import attrs
import torch
from torch import Tensor
from typing_extensions import deprecated

from ._admission import SlotAdmission
from ._checks import check_deployment, check_metadata, check_tensor, check_tokens
from ._step_layout import StepLayout, accept_greedy, make_layout
from ._windows import ContextWindows

if TYPE_CHECKING:
    from unittest.mock import NonCallableMock

    from specmeta import Deployment, DSparkSpecMetadata

    from ._dspark_model import DSparkDraftModel
    from ._slots import SlotPool


@attrs.frozen(eq=False)
class DraftOutput:
    """What a step decided, one row a row of the metadata, padding included.

    Row r commits `tokens[r, : num_accepted[r]]`; later columns mean nothing.
    """

    tokens: Tensor
    """The target's greedy tokens `[R, K + 1]`; a context row has one, in column 0."""
    num_accepted: Tensor
    """Tokens to commit `[R]`, 1 to K + 1, the bonus token included; 1 for a context."""
    draft_tokens: Tensor
    """Drafts `[R, K]` behind the last committed token, for the row's next step."""


class DSparkWorker:
    """Per-request windows of target states, and the drafts that follow from them.

    Every buffer is indexed by sequence slot and allocated here from `engine.num_seq_slots`; a graph
    bucket narrows the batch only. A request gets its slot with its first context row and keeps it,
    in or out of the batch, until its id is in `finished_request_ids`. Padding rows use the scratch
    slot, which their own step resets. A refused step changes nothing.

    Args:
        deployment: a DSpark deployment with greedy acceptance.
        draft_model: the drafter of that deployment, in the engine's dtype; moved to `device`.
        device: where the buffers live and the step runs.

    Raises:
        ValueError: the deployment is for another method, asks for rejection sampling or an
            acceptance gate, or does not describe this draft model.

    """

    def __init__(
        self,
        deployment: Deployment,
        draft_model: DSparkDraftModel,
        device: torch.device | str = "cpu",
    ) -> None:
        drafter = check_deployment(deployment, draft_model)
        engine = deployment.engine
        self.deployment = deployment
        self.draft_model = draft_model.to(device).eval()
        self.windows = ContextWindows(
            num_slots=engine.num_seq_slots,
            num_stages=drafter.num_layers,
            window=deployment.window_size,
            num_kv_heads=drafter.num_key_value_heads,
            head_dim=drafter.head_dim,
            dtype=draft_model.dtype,
            device=torch.device(device),
        )
        # As the buffers report it: "cuda" becomes "cuda:0", which tensors can be compared with.
        self.device = self.windows.context_lens.device
        self._admission = SlotAdmission(self.windows)
        self._laid_out: tuple[DSparkSpecMetadata, StepLayout] | None = None

    @property
    def pool(self) -> SlotPool:
        """Slots of the live requests."""
        return self._admission.pool

    @property
    def batch_to_slot(self) -> Tensor:
        """Slot of each row of the last batch `[num_seq_slots]`; the tail is the scratch slot."""
        return self._admission.batch_to_slot

    @property
    def kv_windows(self) -> Tensor:
        """Keys and values `[num_seq_slots + 1, num_stages, window, 2, kv_heads, head_dim]`."""
        return self.windows.kv

    @property
    def context_lens(self) -> Tensor:
        """Next position of each slot `[num_seq_slots + 1]`."""
        return self.windows.context_lens

    @property
    def valid_lens(self) -> Tensor:
        """Readable window columns of each slot `[num_seq_slots + 1]`."""
        return self.windows.valid_lens

    @property
    def position_initialized(self) -> Tensor:
        """Whether each slot has been seeded `[num_seq_slots + 1]`."""
        return self.windows.initialized

    # In typeshed a mock derives from Any and passes for every class: an overload of its own, marked
    # deprecated, makes it an error for mypy and pyright. At run time it is refused like any stub.
    @overload
    @deprecated("a mock is not metadata; build it with specmeta.testing.make_dspark_metadata()")
    def forward(
        self, metadata: NonCallableMock, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @overload
    def forward(
        self, metadata: DSparkSpecMetadata, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @torch.inference_mode()
    def forward(
        self, metadata: DSparkSpecMetadata, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Accept what the target confirms, and draft the next block of every row.

        Args:
            metadata: the batch. Context rows seed windows, and are drafted for as well; generation
                rows hold `[anchor, draft, ...]`, 1 to K + 1 tokens.
            input_ids: the target's input `[T]`, int64, rows in order, K + 1 tokens a padding row.
            logits: the target's output `[L, V]`: a row for each context's last token, then one for
                each token of every other row.
            captured: the target's hidden states `[T, m * d]` of `layers_to_capture`, side by side.

        Raises:
            TypeError: `metadata` is anything but a `DSparkSpecMetadata`, or a tensor is none.
            ValueError: a tensor's shape, dtype or device is wrong, or the metadata is not of this
                worker's deployment.
            UnknownRequestError: a generation row whose id was never seeded.
            ContextGapError: a context chunk that does not continue its request.
            SlotPoolExhaustedError: more live requests than slots.

        """
        layout = self._layout(metadata)
        vocab = self.deployment.target.vocab_size
        check_tensor("input_ids", input_ids, (layout.num_tokens,), torch.long, self.device)
        check_tensor("logits", logits, (layout.num_logits, vocab), None, self.device)
        self._check_captured(captured, layout.num_tokens)
        self._admission.admit(metadata)
        tokens, accepted = accept_greedy(layout, input_ids, logits)
        if layout.contexts is not None:
            self._seed_contexts(layout, captured)
        drafts = self._advance_and_draft(layout, tokens, accepted, captured)
        return DraftOutput(tokens, accepted, drafts)

    @overload
    @deprecated("a mock is not metadata; build it with specmeta.testing.make_dspark_metadata()")
    def seed(
        self, metadata: NonCallableMock, *, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @overload
    def seed(
        self, metadata: DSparkSpecMetadata, *, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @torch.inference_mode()
    def seed(
        self, metadata: DSparkSpecMetadata, *, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Seed windows from states that another server captured, and draft the first block.

        Args:
            metadata: contexts only, each starting at its first handed-over position.
            next_tokens: the token behind each context `[C]`, int64.
            captured: the handed-over hidden states `[sum(seq_lens), m * d]`.

        Raises:
            TypeError, ValueError, ContextGapError, SlotPoolExhaustedError: as `forward`; generation
                or padding rows, and tokens beyond the vocabulary, are a `ValueError`.

        """
        layout = self._layout(metadata)
        if layout.num_rows != layout.num_contexts:
            raise ValueError(
                f"metadata: {metadata.num_generations} generation and {metadata.num_padding} "
                "padding rows in a seed step; a seed step has context rows only"
            )
        check_tensor("next_tokens", next_tokens, (layout.num_rows,), torch.long, self.device)
        check_tokens("next_tokens", next_tokens, self.deployment.target.vocab_size)
        self._check_captured(captured, layout.num_tokens)
        self._admission.admit(metadata)
        self._seed_contexts(layout, captured)
        tokens = next_tokens[:, None].expand(-1, metadata.max_draft_len + 1)
        accepted = torch.ones_like(next_tokens)
        drafts = self._advance_and_draft(layout, tokens, accepted, captured)
        return DraftOutput(tokens, accepted, drafts)

    def _layout(self, metadata: DSparkSpecMetadata) -> StepLayout:
        if self._laid_out is not None and self._laid_out[0] is metadata:
            return self._laid_out[1]
        check_metadata(metadata, self.deployment)
        layout = make_layout(metadata, self.device)
        self._laid_out = (metadata, layout)
        return layout

    def _check_captured(self, captured: Tensor, tokens: int) -> None:
        width = self.draft_model.fc.in_features
        check_tensor("captured", captured, (tokens, width), self.draft_model.dtype, self.device)

    # Device side.

    def _seed_contexts(self, layout: StepLayout, captured: Tensor) -> None:
        contexts, windows = layout.contexts, self.windows
        assert contexts is not None
        slots = self.batch_to_slot[: layout.num_contexts]
        self._write(
            self.batch_to_slot.index_select(0, contexts.rows),
            contexts.positions,
            captured.index_select(0, contexts.tokens),
        )
        windows.advance(slots, contexts.ends, contexts.lengths)
        windows.initialized[slots] = True

    def _write(self, slots: Tensor, positions: Tensor, captured: Tensor) -> None:
        model = self.draft_model
        kv = model.context_kv(model.project_context(captured), positions)
        self.windows.write(slots, positions, kv)

    def _advance_and_draft(
        self, layout: StepLayout, tokens: Tensor, accepted: Tensor, captured: Tensor
    ) -> Tensor:
        """The generation path: tensors of fixed shapes, no host sync.

        Context rows have been seeded; the others commit their accepted rows here.
        """
        windows, model = self.windows, self.draft_model
        slots = self.batch_to_slot[: layout.num_rows]
        if layout.num_rows > layout.num_contexts:
            moving = slots[layout.num_contexts :]
            counts = accepted[layout.num_contexts :]
            old = windows.context_lens.index_select(0, moving)
            # Offsets behind the last accepted token repeat it, so that every row writes K + 1
            # columns, all of accepted tokens: a rejected token's state is never even projected.
            steps = torch.minimum(layout.offsets, counts[:, None] - 1)
            positions = (old[:, None] + steps).flatten()
            rows = (layout.first_token + steps).flatten()
            self._write(
                moving[:, None].expand_as(steps).flatten(),
                positions,
                captured.index_select(0, rows),
            )
            windows.advance(moving, old + counts, counts)
        starts = windows.context_lens.index_select(0, slots)
        readable = windows.readable(starts, windows.valid_lens.index_select(0, slots))
        bonus = tokens.gather(1, accepted[:, None] - 1).squeeze(1)
        hidden = model.block(bonus, starts, windows.read(slots), readable)
        drafts = model.draft(hidden, bonus, layout.offsets.shape[0] - 1)
        if layout.num_padding:
            # Inside the step, so that replays of a captured graph cannot accumulate a position.
            windows.reset((windows.scratch_slot,))
        return drafts
