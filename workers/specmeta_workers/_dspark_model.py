"""The DSpark draft model of the dense Qwen3 kind, in plain torch.

A block of `block_size` slots, the anchor token and then mask tokens, attends to the projected
hidden states of the target's committed tokens and to itself. One forward gives the base logits of
every slot; the Markov head then walks the slots and adds a bias that depends on the token drafted
just before (DSpark, arXiv 2607.05147). Slot i sits at position `anchor + i` and predicts the token
at `anchor + i + 1`; a context token sits at its own position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._heads import ConfidenceHead, MarkovHead, make_markov_head
from ._layers import DraftLayer, RMSNorm, RotaryEmbedding

if TYPE_CHECKING:
    from specmeta import DSparkDrafterConfig


class DSparkDraftModel(nn.Module):
    """Drafter whose parameters carry the names of the published DeepSpec checkpoints.

    Shape letters: B requests, S block slots, W context columns, L drafter layers, d hidden size,
    m captured target layers, V vocabulary, K drafted tokens.

    Raises:
        ValueError: the configuration asks for what this class does not implement: a causal window
            or a mask-at-position anchor.

    """

    def __init__(self, config: DSparkDrafterConfig) -> None:
        super().__init__()
        _check_supported(config)
        self.config = config
        width, eps = config.hidden_size, config.rms_norm_eps
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.fc = nn.Linear(len(config.target_layer_ids) * width, width, bias=False)
        self.hidden_norm = RMSNorm(width, eps)
        self.layers = nn.ModuleList(
            DraftLayer(
                hidden_size=width,
                intermediate_size=config.intermediate_size,
                num_heads=config.num_attention_heads,
                num_kv_heads=config.num_key_value_heads,
                head_dim=config.head_dim,
                eps=eps,
            )
            for _ in range(config.num_layers)
        )
        self.norm = RMSNorm(width, eps)
        self.rotary = RotaryEmbedding(config.head_dim, config.rope_theta)
        self.lm_head = nn.Linear(width, config.vocab_size, bias=False)
        self.markov_head: MarkovHead | None = None
        if config.markov_head_type is not None:
            self.markov_head = make_markov_head(
                config.markov_head_type, config.vocab_size, config.markov_rank, width
            )
        self.confidence_head: ConfidenceHead | None = None
        if config.enable_confidence_head:
            extra = config.markov_rank if config.confidence_head_with_markov else 0
            self.confidence_head = ConfidenceHead(width + extra)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights, hence of every activation."""
        return self.fc.weight.dtype

    def project_context(self, captured: Tensor) -> Tensor:
        """`hidden_norm(fc(captured))`: captured target states `[*, m * d]` to `[*, d]`."""
        out: Tensor = self.hidden_norm(self.fc(captured))
        return out

    def context_kv(self, context: Tensor, positions: Tensor) -> Tensor:
        """Keys and values of committed tokens, once for all later drafts.

        `context [N, d]` from `project_context`, absolute `positions [N]` to
        `[N, L, 2, kv_heads, head_dim]`.
        """
        phases = self.rotary(positions, context.dtype)
        pairs: list[Tensor] = []
        for layer in self.layers:
            assert isinstance(layer, DraftLayer)
            pairs.extend(layer.self_attn.keys_values(context, phases))
        stacked = torch.stack(pairs, 1)
        return stacked.view(-1, len(self.layers), 2, *stacked.shape[2:])

    def block(
        self,
        anchor_tokens: Tensor,
        anchor_positions: Tensor,
        context_kv: Tensor,
        context_mask: Tensor,
    ) -> Tensor:
        """Hidden states `[B, block_size, d]` of one block a request, after the final norm.

        `anchor_tokens [B]`, `anchor_positions [B]`, `context_kv [B, L, W, 2, kv_heads, head_dim]`,
        `context_mask [B, W]` (True: the column may be read). Every slot reads the same columns and
        the whole block.
        """
        size = self.config.block_size
        tokens = anchor_tokens.new_full((anchor_tokens.shape[0], size), self.config.mask_token_id)
        tokens[:, 0] = anchor_tokens
        offsets = torch.arange(size, device=anchor_positions.device)
        mask = F.pad(context_mask, (0, size), value=True)[:, None, None]
        return self.forward_block(
            self.embed_tokens(tokens), anchor_positions[:, None] + offsets, context_kv, mask
        )

    def forward_block(
        self, noise_embeds: Tensor, positions: Tensor, context_kv: Tensor, attn_mask: Tensor
    ) -> Tensor:
        """The general form: any number of blocks a sequence, as training needs it.

        `noise_embeds [B, S, d]`, `positions [B, S]`, `context_kv [B, L, W, 2, kv_heads, head_dim]`
        and a boolean `attn_mask` that broadcasts to `[B, 1, S, W + S]` (True: may be read) to
        `[B, S, d]`. A slot must be allowed to read at least one key.
        """
        phases = self.rotary(positions, noise_embeds.dtype)
        # One additive bias for all layers: the attention kernel would convert the mask in each.
        bias = torch.zeros_like(attn_mask, dtype=noise_embeds.dtype)
        bias = bias.masked_fill(attn_mask.logical_not(), float("-inf"))
        hidden = noise_embeds
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, phases, context_kv[:, index], bias)
        out: Tensor = self.norm(hidden)
        return out

    def draft(self, hidden: Tensor, anchor_tokens: Tensor, num_drafts: int) -> Tensor:
        """Greedy draft tokens `[B, K]` of `hidden [B, block_size, d]`; what serving needs."""
        return self._walk(hidden[:, :num_drafts], anchor_tokens)[0]

    def sample(
        self, hidden: Tensor, anchor_tokens: Tensor, num_drafts: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Draft greedily and return what the heads said.

        `hidden [B, block_size, d]` of `block`, `anchor_tokens [B]`, K = `num_drafts` to
        `(tokens [B, K], corrected logits [B, K, V], confidence logits [B, K] or None)`.
        """
        hidden = hidden[:, :num_drafts]
        tokens, logits = self._walk(hidden, anchor_tokens)
        previous = torch.cat((anchor_tokens[:, None], tokens[:, :-1]), 1)
        return tokens, logits, self._confidence(hidden, previous)

    def head_logits(self, hidden: Tensor, previous_tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """Corrected and confidence logits when the tokens are known (teacher forcing).

        `hidden [..., block, d]`, `previous_tokens [..., block]`: the anchor, then the labels but
        the last. Returns `[..., block, V]` and `[..., block]`, or None without the head.
        """
        logits: Tensor = self.lm_head(hidden)
        if self.markov_head is not None:
            logits = logits + self.markov_head.bias(previous_tokens, hidden)
        return logits, self._confidence(hidden, previous_tokens)

    def _walk(self, hidden: Tensor, anchor_tokens: Tensor) -> tuple[Tensor, Tensor]:
        logits: Tensor = self.lm_head(hidden)
        if self.markov_head is None:
            return logits.argmax(-1), logits
        return self.markov_head.walk(logits, hidden, anchor_tokens)

    def _confidence(self, hidden: Tensor, previous_tokens: Tensor) -> Tensor | None:
        if self.confidence_head is None:
            return None
        features = hidden
        if self.config.confidence_head_with_markov:
            assert self.markov_head is not None
            features = torch.cat((hidden, self.markov_head.markov_w1(previous_tokens)), -1)
        out: Tensor = self.confidence_head(features)
        return out


def _check_supported(config: DSparkDrafterConfig) -> None:
    """Refuse what would run and be wrong."""
    if config.anchor_convention != "anchor_first":
        raise ValueError(
            f"anchor_convention: {config.anchor_convention} is not DSpark's; a drafter whose "
            "slots predict their own position is a DFlash drafter: load it as one"
        )
    if config.window_causality != "non_causal":
        raise ValueError(
            f"window_causality: {config.window_causality} is not implemented by "
            "DSparkDraftModel; use a checkpoint whose window is non_causal"
        )
