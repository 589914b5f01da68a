"""Runs a transformers causal language model over ragged rows, with slot-indexed keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ._checks import check_is_deployment
from ._kv_store import KVStore, KVView
from ._slots import SlotPool
from ._target_layout import RowGroup, TargetRows
from ._target_model import cache_argument, check_positions, layers_to_hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from specmeta import Deployment


class TargetRunner:
    """A target model, its KV store and the capture of its hidden states.

    Args:
        model: causal language model of transformers that takes `position_ids`, a cache, a 4-D
            `attention_mask` and `logits_to_keep`; it is put in evaluation mode.
        target_layer_ids: layers to capture, zero-based outputs (-1 is the embedding output),
            strictly increasing; () captures nothing.
        num_slots: rows of the KV store, the engine's `num_seq_slots`.
        max_seq_len: longest sequence in tokens.

    Raises:
        ValueError: a layer that the model lacks, an argument that its forward lacks, a
            `max_seq_len` above its maximum position, or a sliding window, which the mask here
            would not honour.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        target_layer_ids: Sequence[int],
        *,
        num_slots: int,
        max_seq_len: int,
    ) -> None:
        # Any: the methods of PreTrainedModel are not typed.
        untyped: Any = model
        self._model = untyped.eval()
        self.target_layer_ids = tuple(target_layer_ids)
        self.max_seq_len = max_seq_len
        self._cache_argument = cache_argument(model)
        text_config = model.config.get_text_config()
        check_positions(text_config, max_seq_len)
        self.vocab_size = int(text_config.vocab_size)
        self.hidden_size = int(text_config.hidden_size)
        heads = int(text_config.num_attention_heads)
        self.store = KVStore(
            num_layers=int(text_config.num_hidden_layers),
            num_slots=num_slots,
            num_kv_heads=int(getattr(text_config, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(text_config, "head_dim", None) or self.hidden_size // heads),
            capacity=max_seq_len,
            dtype=model.dtype,
            device=model.device,
        )
        self.pool = SlotPool(num_slots)
        """Which request owns which row of the store."""
        self._captured: dict[int, Tensor] = {}
        self._hooks = [
            module.register_forward_hook(self._capture_hook(layer_id))
            for layer_id, module in layers_to_hook(model, self.target_layer_ids)
        ]
        # Row p of the mask (keys 0..p visible) is a window into this ramp, see _mask.
        ramp = torch.zeros(2 * max_seq_len, dtype=model.dtype, device=model.device)
        ramp[max_seq_len:] = -torch.inf
        self._ramp = ramp
        self._rows: TargetRows | None = None
        self._groups: tuple[RowGroup, ...] = ()

    @classmethod
    def for_deployment(cls, model: PreTrainedModel, deployment: Deployment) -> TargetRunner:
        """The runner that a deployment needs: its slots, its lengths, its drafter's layers."""
        check_is_deployment(deployment)
        engine = deployment.engine
        return cls(
            model,
            deployment.layers_to_capture,
            num_slots=engine.num_seq_slots,
            # A padding row writes max_draft_len + 1 tokens from position 0.
            max_seq_len=max(engine.max_seq_len, deployment.decoding.max_draft_len + 1),
        )

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the model, its logits, its hidden states and the KV store."""
        return self.store.keys.dtype

    @property
    def device(self) -> torch.device:
        """Where the model and the KV store live."""
        return self.store.keys.device

    @torch.inference_mode()
    def forward(self, rows: TargetRows, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Run each row from its stored length on; the lengths grow when all of it has succeeded.

        A forward that raises leaves the lengths as they were, and what it wrote lies beyond them.

        Args:
            rows: the batch; an object used twice in a row costs no index work.
            input_ids: `[T]` long, the rows' tokens, flat.

        Returns:
            logits `[L, vocab]`: one row a context (its last token), then one a token of the
            generation and padding rows; captured hidden states
            `[T, len(target_layer_ids) * hidden_size]`, in the order of `target_layer_ids`.

        Raises:
            ValueError: the number of tokens is not the rows', or a row would outgrow `max_seq_len`.
        """
        if rows is not self._rows:
            self._groups = self._build_groups(rows)
            self._rows = rows
        groups = self._groups
        if input_ids.shape != (groups[-1].last_token,):
            raise ValueError(
                f"input_ids: shape {tuple(input_ids.shape)} for rows of {groups[-1].last_token} "
                "tokens; give one flat token a position"
            )
        lengths = self.store.lengths
        starts = [[lengths[slot] for slot in group.slots] for group in groups]
        for group, group_starts in zip(groups, starts, strict=True):
            self._check_fits(group, group_starts)
        outputs = []
        first_generation = rows.num_contexts
        for group, group_starts in zip(groups, starts, strict=True):
            is_context = group.first_token == 0 and first_generation > 0
            tokens = input_ids[group.first_token : group.last_token]
            outputs.append(self._forward_group(group, group_starts, tokens, is_context))
        scratch = self.store.scratch_slot
        for slot, seq_len in zip(rows.slots, rows.seq_lens, strict=True):
            if slot != scratch:
                lengths[slot] += seq_len
        if len(outputs) == 1:
            return outputs[0]
        return (
            torch.cat([logits for logits, _ in outputs]),
            torch.cat([captured for _, captured in outputs]),
        )

    def close(self) -> None:
        """Remove the capture hooks from the model."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _build_groups(self, rows: TargetRows) -> tuple[RowGroup, ...]:
        split = rows.num_contexts
        groups: list[RowGroup] = []
        first_token = 0
        for part in (slice(0, split), slice(split, len(rows.slots))):
            if rows.slots[part]:
                group = RowGroup.build(
                    self.store, rows.seq_lens[part], rows.slots[part], first_token
                )
                first_token = group.last_token
                groups.append(group)
        return tuple(groups)

    def _check_fits(self, group: RowGroup, starts: list[int]) -> None:
        for slot, start, seq_len in zip(group.slots, starts, group.seq_lens, strict=True):
            if start + seq_len > self.max_seq_len:
                raise ValueError(
                    f"seq_lens: {seq_len} more tokens after the {start} of slot {slot} exceed "
                    f"max_seq_len {self.max_seq_len}; draft less near the end of a sequence"
                )

    def _forward_group(
        self, group: RowGroup, starts: list[int], tokens: Tensor, is_context: bool
    ) -> tuple[Tensor, Tensor]:
        rows = len(starts)
        if rows == 1:
            positions = group.offsets + starts[0]
            length = starts[0] + group.width
        else:
            positions = group.offsets + torch.tensor(starts, device=group.offsets.device)[:, None]
            length = max(s + n for s, n in zip(starts, group.seq_lens, strict=True))
        cells = tokens if group.gather is None else tokens[group.gather]
        keep: int | Tensor = 0
        if is_context:
            keep = 1 if group.real is None else group.last_offsets
        cache = self.store.cache
        cache.view = KVView(
            write_index=(group.write_base + positions[:, None]).reshape(-1),
            slots=group.read_slots,
            length=length,
        )
        try:
            output = self._model(
                input_ids=cells.view(rows, group.width),
                attention_mask=self._mask(positions, length),
                position_ids=positions,
                use_cache=True,
                logits_to_keep=keep,
                **{self._cache_argument: cache},
            )
            logits: Tensor = output.logits
            captured = [self._captured[layer_id] for layer_id in self.target_layer_ids]
        finally:
            cache.view = None
            self._captured.clear()
        if not is_context:
            flat_logits = logits.flatten(0, 1)
            if group.real is not None:
                flat_logits = flat_logits[group.real]
        elif group.real is None:
            flat_logits = logits[:, -1]
        else:
            flat_logits = logits[torch.arange(rows, device=logits.device), group.last_index]
        return flat_logits, self._flatten_captured(group, captured)

    def _flatten_captured(self, group: RowGroup, captured: list[Tensor]) -> Tensor:
        if not captured:
            tokens = group.last_token - group.first_token
            return torch.empty(tokens, 0, dtype=self.dtype, device=self.device)
        flat = (captured[0] if len(captured) == 1 else torch.cat(captured, dim=-1)).flatten(0, 1)
        return flat if group.real is None else flat[group.real]

    def _mask(self, positions: Tensor, length: int) -> Tensor:
        """Additive mask `[n, 1, S, length]`: key j is visible to position p iff j <= p.

        The row of position p is `ramp[max_seq_len - 1 - p:]`, so a strided view over the ramp holds
        every row at the memory of one, and a step costs a single gather. -inf, not the lowest
        finite number, so that no stale score can survive the sum.
        """
        shape = (self.max_seq_len, length)
        rows = self._ramp.as_strided(shape, (1, 1))
        index = (self.max_seq_len - 1 - positions).reshape(-1)
        return rows.index_select(0, index).view(positions.shape[0], 1, positions.shape[1], length)

    def _capture_hook(self, layer_id: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            if self.store.cache.view is None:
                return  # the model runs for somebody else
            self._captured[layer_id] = output[0] if isinstance(output, tuple) else output

        return hook
