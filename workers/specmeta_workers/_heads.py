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

import torch
from torch import Tensor, nn


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

    def latent(
        self,
        previous: Tensor,
        hidden: Tensor,  # noqa: ARG002 - the gated and rnn heads read it
        state: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Latent `[..., r]` of one slot and the next state, from `E[x_{k-1}] [..., r]`."""
        return previous, state

    def latents(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """Latents of a whole block when its tokens are known.

        `previous [..., block, r]`, `hidden [..., block, d]` to `[..., block, r]`.
        """
        state = self.initial_state(hidden[..., 0, :])
        steps: list[Tensor] = []
        for slot in range(hidden.shape[-2]):
            step, state = self.latent(previous[..., slot, :], hidden[..., slot, :], state)
            steps.append(step)
        return torch.stack(steps, -2)

    def bias(self, previous_tokens: Tensor, hidden: Tensor) -> Tensor:
        """Biases `[..., block, V]` for known tokens `[..., block]` and `hidden [..., block, d]`."""
        out: Tensor = self.markov_w2(self.latents(self.markov_w1(previous_tokens), hidden))
        return out

    def walk(
        self, base_logits: Tensor, hidden: Tensor, anchor_tokens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draft greedily, slot after slot.

        `base_logits [B, K, V]`, `hidden [B, K, d]`, `anchor_tokens [B]` to the drafted tokens
        `[B, K]` and the corrected logits `[B, K, V]`.
        """
        state = self.initial_state(hidden[:, 0])
        projection = self.markov_w2.weight.t()
        token = anchor_tokens
        tokens: list[Tensor] = []
        corrected: list[Tensor] = []
        for slot in range(base_logits.shape[1]):
            latent, state = self.latent(self.markov_w1(token), hidden[:, slot], state)
            logits = torch.addmm(base_logits[:, slot], latent, projection)
            token = logits.argmax(-1)
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

    def latent(self, previous: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Gate the embedding; the state is unused."""
        return self.latents(previous, hidden), state

    def latents(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """`sigmoid(G [h; E]) * E` for every slot at once."""
        return torch.sigmoid(self.gate_proj(torch.cat((hidden, previous), -1))) * previous


class RNNMarkovHead(MarkovHead):
    """A gated recurrence over the drafted tokens."""

    def __init__(self, vocab_size: int, rank: int, hidden_size: int) -> None:
        super().__init__(vocab_size, rank)
        self.joint_proj = nn.Linear(2 * rank + hidden_size, 3 * rank)

    def latent(self, previous: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the recurrence."""
        joint = self.joint_proj(torch.cat((state, previous, hidden), -1))
        gate, candidate, output = joint.chunk(3, -1)
        gate = torch.sigmoid(gate)
        state = gate * state + (1 - gate) * torch.tanh(candidate)
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
