"""What the workers share: slots, windows, acceptance, and the order of a step."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, overload

import torch
from torch import Tensor
from typing_extensions import deprecated

from specmeta import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata, get_spec_metadata

from ._admission import SlotAdmission
from ._checks import check_deployment, check_metadata, check_tensor, check_tokens
from ._draft_output import DraftOutput
from ._generation_path import GenerationPath, Rows
from ._graphs import BucketRunner
from ._step_layout import StepLayout, make_layout

if TYPE_CHECKING:
    from unittest.mock import NonCallableMock

    from specmeta import DecodingType, Deployment

    from ._sampling import SamplingTensors
    from ._slots import SlotPool

Metadata = TypeVar("Metadata", DSparkSpecMetadata, DFlashSpecMetadata, MTPSpecMetadata)


class DraftWorker(GenerationPath, Generic[Metadata]):
    """Slot-indexed state of a drafter, and the drafts that follow from it.

    Every buffer is indexed by sequence slot and allocated here from `engine.num_seq_slots`; a graph
    bucket narrows the batch only. A request gets its slot with its first context row and keeps it,
    in or out of the batch, until its id is in `finished_request_ids`. Padding rows use the scratch
    slot, which their own step resets. A refused step changes nothing.

    A method of its own needs a subclass with the two class attributes and the four methods that
    write tokens into its state, remember the last of them, read the state, and draft.

    Args:
        deployment: a deployment of the worker's decoding type.
        draft_model: the drafter of that deployment, in the engine's dtype; moved to `device`.
        device: where the buffers live and the step runs.

    Raises:
        TypeError: not a deployment, or not a draft model of this worker.
        ValueError: the deployment is for another method, or does not describe this draft model.

    """

    decoding_type: ClassVar[DecodingType]
    model_type: ClassVar[type[Any]]

    def __init__(
        self, deployment: Deployment, draft_model: Any, device: torch.device | str = "cpu"
    ) -> None:
        check_deployment(deployment, draft_model, self.decoding_type, self.model_type)
        super().__init__(deployment, draft_model.to(device).eval(), torch.device(device))
        self._admission = SlotAdmission(self.windows)
        self._graphs = BucketRunner(self._generate_padded, deployment, self.device)
        # The layouts of the batches in flight, one a pipeline stage.
        self._laid_out: deque[tuple[Metadata, StepLayout, SamplingTensors | None]] = deque(
            maxlen=deployment.engine.pipeline_parallel_size
        )

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
        """Tokens of each slot that its window holds `[num_seq_slots + 1]`."""
        return self.windows.valid_lens

    @property
    def position_initialized(self) -> Tensor:
        """Whether each slot has been seeded `[num_seq_slots + 1]`."""
        return self.windows.initialized

    # In typeshed a mock derives from Any and passes for every class: an overload of its own, marked
    # deprecated, makes it an error for mypy and pyright. At run time it is refused like any stub.
    @overload
    @deprecated("a mock is not metadata; build it with a factory of specmeta.testing")
    def forward(
        self, metadata: NonCallableMock, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @overload
    def forward(
        self, metadata: Metadata, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @torch.inference_mode()
    def forward(
        self, metadata: Any, *, input_ids: Tensor, logits: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Accept what the target confirms, and draft the next tokens of every row.

        Args:
            metadata: the batch. Context rows seed their slots, and are drafted for as well;
                generation rows hold `[anchor, draft, ...]`, 1 to K + 1 tokens.
            input_ids: the target's input `[T]`, int64, rows in order, K + 1 tokens a padding row.
            logits: the target's output `[L, V]`: a row for each context's last token, then one for
                each token of every other row.
            captured: the target's hidden states `[T, m * d]` of the deployment's
                `layers_to_capture`, side by side.

        Raises:
            TypeError: `metadata` is of any other class, or a tensor is none.
            ValueError: a tensor's shape, dtype or device is wrong (on a CPU an input id too); the
                metadata is of another deployment, or lacks the sampling that this one asks for.
            UnknownRequestError: a generation row whose id was never seeded.
            ContextGapError: a context chunk that does not continue its request.
            SlotPoolExhaustedError: more live requests than slots.

        """
        layout, sampling = self._layout(metadata)
        vocab = self.deployment.target.vocab_size
        check_tensor("input_ids", input_ids, (layout.num_tokens,), torch.long, self.device)
        check_tensor("logits", logits, (layout.num_logits, vocab), None, self.device)
        self._check_captured(captured, layout.num_tokens)
        if self.device.type == "cpu":  # elsewhere reading them would wait for the device
            check_tokens("input_ids", input_ids, vocab)
        self._admission.admit(metadata)
        slots = self.batch_to_slot[: layout.num_rows]
        rows = Rows(layout.index, slots, input_ids, logits, captured, sampling)
        if layout.contexts is not None:
            parts = self._mixed(rows, layout.contexts, layout.num_contexts)
            if layout.num_padding:
                self.windows.reset((self.windows.scratch_slot,))
        elif metadata.is_cuda_graph:
            parts = self._graphs.run(rows)
        elif layout.num_padding:
            parts = self._generate_padded(rows)
        else:
            parts = self._generate(rows)
        return DraftOutput(*parts)

    @overload
    @deprecated("a mock is not metadata; build it with a factory of specmeta.testing")
    def seed(
        self,
        metadata: NonCallableMock,
        *,
        input_ids: Tensor,
        next_tokens: Tensor,
        captured: Tensor,
    ) -> DraftOutput: ...

    @overload
    def seed(
        self, metadata: Metadata, *, input_ids: Tensor, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput: ...

    @torch.inference_mode()
    def seed(
        self, metadata: Any, *, input_ids: Tensor, next_tokens: Tensor, captured: Tensor
    ) -> DraftOutput:
        """Seed slots from states that were captured before, and draft behind known tokens.

        For requests whose prompt ran on another server, was found in a prefix cache, or ran before
        a preemption.

        Args:
            metadata: contexts only, each starting at its first captured position.
            input_ids: the contexts' tokens `[sum(seq_lens)]`, int64.
            next_tokens: the token behind each context `[C]`, int64.
            captured: the captured hidden states `[sum(seq_lens), m * d]`.

        Raises:
            TypeError, ValueError, ContextGapError, SlotPoolExhaustedError: as `forward`; generation
                or padding rows, and tokens beyond the vocabulary, are a `ValueError`.

        """
        layout, sampling = self._layout(metadata)
        contexts = layout.contexts
        if contexts is None or layout.num_rows != layout.num_contexts:
            raise ValueError(
                f"metadata: {metadata.num_generations} generation and {metadata.num_padding} "
                "padding rows in a seed step; a seed step has context rows only"
            )
        vocab = self.deployment.target.vocab_size
        for name, tokens, count in (
            ("input_ids", input_ids, layout.num_tokens),
            ("next_tokens", next_tokens, layout.num_rows),
        ):
            check_tensor(name, tokens, (count,), torch.long, self.device)
            check_tokens(name, tokens, vocab)
        self._check_captured(captured, layout.num_tokens)
        self._admission.admit(metadata)
        slots = self.batch_to_slot[: layout.num_rows]
        self._seed_contexts(slots, contexts, input_ids, captured)
        drafts = self._draft(slots, next_tokens, self._chooser(slots, sampling))
        return DraftOutput(
            next_tokens[:, None].expand(-1, metadata.max_draft_len + 1),
            torch.ones_like(next_tokens),
            *drafts,
        )

    def capture_graphs(self) -> None:
        """Make every graph bucket of the engine, the largest first, so that no request waits.

        Each is a step of padding alone, which leaves no state. The buckets are for logits of the
        engine's dtype; one for another type is made by the first step that brings it.
        """
        engine, width = self.deployment.engine, self._offsets.shape[0]
        dtype, target = self.draft_model.dtype, self.deployment.target
        channels = len(self.deployment.layers_to_capture) * target.hidden_size
        # One for each real row, of which there is none.
        sampling = () if self.deployment.decoding.use_rejection_sampling else None
        for size in reversed(engine.cuda_graph_batch_sizes):
            padding = get_spec_metadata(
                self.deployment,
                request_ids=(),
                num_contexts=0,
                seq_lens=(),
                context_positions=(),
                num_padding=size,
                sampling=sampling,
            )
            tokens = size * width
            self.forward(
                cast("Metadata", padding.create_cuda_graph_metadata(size)),
                input_ids=torch.zeros(tokens, dtype=torch.long, device=self.device),
                logits=torch.zeros(tokens, target.vocab_size, dtype=dtype, device=self.device),
                captured=torch.zeros(tokens, channels, dtype=dtype, device=self.device),
            )

    def _layout(self, metadata: Metadata) -> tuple[StepLayout, SamplingTensors | None]:
        for known, layout, sampling in self._laid_out:
            if known is metadata:
                return layout, sampling
        check_metadata(metadata, self.deployment)
        layout = make_layout(metadata, self.deployment.window_size, self.device)
        sampling = self._acceptance.sampling(metadata)
        self._laid_out.append((metadata, layout, sampling))
        return layout, sampling

    def _check_captured(self, captured: Tensor, tokens: int) -> None:
        target = self.deployment.target
        width = len(self.deployment.layers_to_capture) * target.hidden_size
        check_tensor("captured", captured, (tokens, width), self.draft_model.dtype, self.device)
