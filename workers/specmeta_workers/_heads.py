"""Sequential heads of DSpark: the Markov biases and the confidence estimate.

Notation, as in the DSpark paper (arXiv 2607.05147): `E = markov_w1 [V, r]`, `W2 = markov_w2
[V, r]`, `h_k` the drafter's output at slot k, `x_k` the token drafted there, `x_0` the anchor.

* vanilla: `b_k = W2 E[x_{k-1}]`
* gated: `b_k = W2 (sigmoid(G [h_k; E[x_{k-1}]]) * E[x_{k-1}])`
* rnn: `(g, c, o) = J [s; E[x_{k-1}]; h_k]`, `s <- sigmoid(g) s + (1 - sigmoid(g)) tanh(c)`,
  `b_k = W2 tanh(o)`, `s_0 = 0`
* confidence: `c_k = sigmoid(w [h_k; E[x_{k-1}]] + bias)`, or of `h_k` alone
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._choosing import greedy

if TYPE_CHECKING:
    from ._choosing import Choose


class MarkovHead(nn.Module):
    """The vanilla head, and the base of the other two: they change only the latent."""

    def __init__(self, vocab_size: int, rank: int) -> None:
        super().__init__()
        self.rank = rank
        self.markov_w1 = nn.Embedding(vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, vocab_size, bias=False)

    def initial_state(self, hidden: Tensor) -> Tensor:
        """`s_0 [..., r]` for `hidden [..., d]`; only the rnn head changes it."""
        return hidden.new_zeros((*hidden.shape[:-1], self.rank))

    def prepare(self, hidden: Tensor) -> Tensor:
        """What the latents need of `hidden [..., block, d]`, for all slots at once `[..., block,
        *]`.
        """
        return hidden

    def latent(
        self,
        previous: Tensor,
        prepared: Tensor,  # noqa: ARG002 - the gated and rnn heads read it
        state: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Latent `[..., r]` of one slot and the next state, from `E[x_{k-1}] [..., r]`."""
        return previous, state

    def latents(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """Latents of a whole block when its tokens are known.

        `previous [..., block, r]`, `hidden [..., block, d]` to `[..., block, r]`.
        """
        state = self.initial_state(hidden[..., 0, :])
        prepared = self.prepare(hidden)
        steps: list[Tensor] = []
        for slot in range(hidden.shape[-2]):
            step, state = self.latent(previous[..., slot, :], prepared[..., slot, :], state)
            steps.append(step)
        return torch.stack(steps, -2)

    def bias(self, previous_tokens: Tensor, hidden: Tensor) -> Tensor:
        """Biases `[..., block, V]` for known tokens `[..., block]` and `hidden [..., block, d]`."""
        out: Tensor = self.markov_w2(self.latents(self.markov_w1(previous_tokens), hidden))
        return out

    def state_behind(
        self,
        tokens: Tensor,  # noqa: ARG002 - the rnn head reads it
        hidden: Tensor,
    ) -> Tensor:
        """State `[B, r]` behind the first slot of a block, which yields no draft.

        `tokens [B]` before the slot, its `hidden [B, d]`. Only the rnn head changes it.
        """
        return self.initial_state(hidden)

    def walk(
        self,
        base_logits: Tensor,
        hidden: Tensor,
        anchor_tokens: Tensor,
        choose: Choose = greedy,
        state: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draft slot after slot.

        `base_logits [B, K, V]`, `hidden [B, K, d]`, `anchor_tokens [B]` and the `state [B, r]` of
        `state_behind` (None: the first of these slots is the block's) to the drafted tokens
        `[B, K]` and the corrected logits `[B, K, V]`.
        """
        state = self.initial_state(hidden[:, 0]) if state is None else state
        embedding, projection = self.markov_w1.weight, self.markov_w2.weight.t()
        token = anchor_tokens
        tokens: list[Tensor] = []
        corrected: list[Tensor] = []
        slots = zip(base_logits.unbind(1), self.prepare(hidden).unbind(1), strict=True)
        for slot, (base, prepared) in enumerate(slots):
            latent, state = self.latent(embedding.index_select(0, token), prepared, state)
            logits = torch.addmm(base, latent, projection)
            token = choose(slot, logits)
            tokens.append(token)
            corrected.append(logits)
        return torch.stack(tokens, 1), torch.stack(corrected, 1)


class VanillaMarkovHead(MarkovHead):
    """A low-rank bigram: the bias depends on the previous token only."""

    def latents(
        self,
        previous: Tensor,
        hidden: Tensor,  # noqa: ARG002 - the signature of every head
    ) -> Tensor:
        """The embeddings themselves: no slot depends on another."""
        return previous


class GatedMarkovHead(MarkovHead):
    """A bigram whose latent is gated by the slot's hidden state."""

    def __init__(self, vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__(vocab_size, rank)
        self.gate_proj = nn.Linear(hidden_size + rank, rank)

    def prepare(self, hidden: Tensor) -> Tensor:
        """The gate's part that does not depend on a draft `[..., block, r]`."""
        weight = self.gate_proj.weight[:, : -self.rank]
        return F.linear(hidden, weight, self.gate_proj.bias)

    def latent(self, previous: Tensor, prepared: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Gate the embedding; the state is unused."""
        gate = prepared + F.linear(previous, self.gate_proj.weight[:, -self.rank :])
        return torch.sigmoid(gate) * previous, state

    def latents(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """`sigmoid(G [h; E]) * E` for every slot at once."""
        return self.latent(previous, self.prepare(hidden), previous)[0]


class RNNMarkovHead(MarkovHead):
    """A gated recurrence over the drafted tokens."""

    def __init__(self, vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__(vocab_size, rank)
        self.joint_proj = nn.Linear(2 * rank + hidden_size, 3 * rank)

    def prepare(self, hidden: Tensor) -> Tensor:
        """The joint projection's part that does not depend on a draft `[..., block, 3 r]`."""
        weight = self.joint_proj.weight[:, 2 * self.rank :]
        return F.linear(hidden, weight, self.joint_proj.bias)

    def state_behind(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        """One step of the recurrence, from its initial state."""
        state = self.initial_state(hidden)
        return self.latent(self.markov_w1(tokens), self.prepare(hidden), state)[1]

    def latent(self, previous: Tensor, prepared: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the recurrence."""
        weight = self.joint_proj.weight[:, : 2 * self.rank]
        joint = prepared + F.linear(torch.cat((state, previous), -1), weight)
        gate, candidate, output = joint.chunk(3, -1)
        state = torch.lerp(torch.tanh(candidate), state, torch.sigmoid(gate))
        return torch.tanh(output), state


class ConfidenceHead(nn.Module):
    """Logit of a slot's chance to be accepted, given that the slots before it were."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def forward(self, features: Tensor) -> Tensor:
        """`features [..., width]` to logits `[...]`."""
        out: Tensor = self.proj(features).squeeze(-1)
        return out


def make_markov_head(head_type: str, vocab_size: int, rank: int, hidden_size: int) -> MarkovHead:
    """The head of a checkpoint's `markov_head_type`.

    Raises:
        ValueError: the type is none of `vanilla`, `gated`, `rnn`.

    """
    if head_type == "vanilla":
        return VanillaMarkovHead(vocab_size, rank)
    if head_type == "gated":
        return GatedMarkovHead(vocab_size, rank, hidden_size)
    if head_type == "rnn":
        return RNNMarkovHead(vocab_size, rank, hidden_size)
    raise ValueError(
        f"markov_head_type: {head_type!r} is unknown; it must be 'vanilla', 'gated' or 'rnn'"
    )
