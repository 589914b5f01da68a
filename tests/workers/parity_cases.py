"""Read a parity folder and compare a loaded drafter, and a worker around it, with its numbers.

A folder has a checkpoint and `golden.safetensors`: rounds of `context_hidden [1, n, m * d]` (the
states that became context in that round), `anchor_token`, `anchor_position`, and what the published
implementation computed from them. See tests/data/parity/README.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import attrs
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from specmeta import (
    Deployment,
    DFlashDecodingConfig,
    DSparkDecodingConfig,
    EngineConfig,
    RequestId,
    TargetConfig,
)
from specmeta_workers import (
    DFlashDraftModel,
    DFlashWorker,
    DSparkDraftModel,
    DSparkWorker,
    load_draft_model,
)
from tests.workers.worker_cases import Chunk, Rig, Row

TOLERANCE = 1e-4
GOLDEN_ID = 4711
Item = TypeVar("Item")
BlockModel = DSparkDraftModel | DFlashDraftModel


class TargetHead(nn.Module):
    """The two layers of a target that a drafter without its own may borrow."""

    def __init__(self, embedding: Tensor, head: Tensor) -> None:
        super().__init__()
        self.embedding = nn.Embedding(embedding.shape[0], embedding.shape[1])
        self.embedding.weight = nn.Parameter(embedding)
        self.head = nn.Linear(head.shape[1], head.shape[0], bias=False)
        self.head.weight = nn.Parameter(head)

    def get_input_embeddings(self) -> nn.Embedding:
        """As transformers has it."""
        return self.embedding

    def get_output_embeddings(self) -> nn.Linear:
        """As transformers has it."""
        return self.head


@attrs.frozen
class Case:
    """One folder."""

    rounds: list[dict[str, Tensor]]
    model: BlockModel

    @property
    def num_drafts(self) -> int:
        """Drafts that the golden rounds hold."""
        return self.rounds[0]["draft_tokens"].shape[1]


def read_case(folder: Path) -> Case:
    """Load a folder of the DeepSpec or the z-lab layout."""
    golden = load_file(folder / "golden.safetensors")
    names = ("target.embed_tokens.weight", "target.lm_head.weight")
    target = TargetHead(*(golden[name] for name in names)) if names[0] in golden else None
    count = 1 + max(int(key[5:].split(".")[0]) for key in golden if key.startswith("round"))
    rounds = [
        {
            key.split(".", 1)[1]: value
            for key, value in golden.items()
            if key.startswith(f"round{r}.")
        }
        for r in range(count)
    ]
    # DeepSpec's file without Markov head does not say what its anchor slot predicts.
    stated = {"anchor_convention": "anchor_first"} if folder.name == "dflash_no_markov" else None
    model = load_draft_model(folder, target, dtype="float32", stated=stated)
    assert isinstance(model, BlockModel)
    return Case(rounds, model)


def check_round(
    model: BlockModel, golden: dict[str, Tensor], context_kv: Tensor, mask: Tensor
) -> None:
    """One block from this context equals the golden round."""
    anchor, position = golden["anchor_token"], golden["anchor_position"]
    hidden = model.block(anchor, position, context_kv, mask)
    close(hidden, golden["block_hidden"])
    if isinstance(model, DSparkDraftModel):
        check_dspark_heads(model, golden, hidden)
        return
    count = golden["draft_tokens"].shape[1]
    close(model.draft_logits(hidden, count), golden["draft_logits"])
    assert torch.equal(model.draft(hidden, anchor, count), golden["draft_tokens"])


def check_dspark_heads(model: DSparkDraftModel, golden: dict[str, Tensor], hidden: Tensor) -> None:
    """The Markov and confidence heads equal the golden round."""
    anchor = golden["anchor_token"]
    count = golden["draft_tokens"].shape[1]
    tokens, logits, confidence = model.sample(hidden, anchor, count)
    close(model.lm_head(hidden), golden["base_logits"])
    close(logits, golden["corrected_logits"][:, :count])
    assert torch.equal(tokens, golden["draft_tokens"])
    assert torch.equal(model.draft(hidden, anchor, count), golden["draft_tokens"])
    assert (confidence is None) == ("confidence_logits" not in golden)
    if confidence is not None:
        close(confidence, golden["confidence_logits"][:, :count])
    first = model.first_slot
    previous = torch.cat((anchor[:, None].expand(-1, first + 1), tokens[:, :-1]), 1)
    taught, taught_confidence = model.head_logits(hidden[:, : first + count], previous)
    close(taught[:, first:], golden["corrected_logits"][:, :count])
    assert (taught_confidence is None) == (confidence is None)
    if taught_confidence is not None:
        close(taught_confidence[:, first:], golden["confidence_logits"][:, :count])


def close(actual: Tensor, expected: Tensor) -> None:
    """Equal to the tolerance of float32 arithmetic in another order."""
    torch.testing.assert_close(actual.double(), expected.double(), rtol=TOLERANCE, atol=TOLERANCE)


def check_model(case: Case) -> None:
    """The drafter alone, from the dense context of each round."""
    model = case.model
    window = model.config.sliding_window
    states = torch.empty(0, model.fc.in_features)
    for golden in case.rounds:
        states = torch.cat((states, golden["context_hidden"][0].float()))
        assert golden["anchor_position"].item() == states.shape[0]
        first = max(0, states.shape[0] - window) if window else 0
        positions = torch.arange(first, states.shape[0])
        kv = model.context_kv(model.project_context(states[first:]), positions)
        mask = torch.ones(1, positions.shape[0], dtype=torch.bool)
        check_round(model, golden, kv.transpose(0, 1)[None], mask)


def check_worker(case: Case, others: tuple[int, ...], golden_row: int, *, num_padding: int) -> None:
    """The drafter behind a worker, beside other requests.

    `others` are the context lengths of the other requests; the golden request sits at `golden_row`.
    """
    rig = make_rig(case, max_num_requests=len(others) + 1 + num_padding)
    position = 0
    for index, golden in enumerate(case.rounds):
        states = golden["context_hidden"][0].float()
        bonus = int(golden["anchor_token"])
        if index == 0 or states.shape[0] > rig.width:
            chunks = {GOLDEN_ID: Chunk(states, position, bonus)}
            if index == 0:
                rest = {i: Chunk(rig.captured(n), 0, 1) for i, n in enumerate(others, 1)}
                chunks = insert(rest, chunks, golden_row)
            output = rig.contexts(chunks)
            row = list(chunks).index(GOLDEN_ID)
        else:
            # The other rows accept and bring other counts than the golden row, and change order.
            rows = {i: rig.row(1 + (i + index) % rig.width) for i, _ in enumerate(others, 1)}
            rows = dict(reversed(rows.items())) if index % 2 else rows
            rows = insert(rows, {GOLDEN_ID: golden_row_of(rig, states, bonus)}, golden_row)
            output = rig.generate(rows, num_padding=num_padding)
            row = golden_row
            assert output.num_accepted[row] == states.shape[0]
        position += states.shape[0]
        assert output.draft_tokens[row].tolist() == golden["draft_tokens"][0].tolist()
        windows = rig.worker.windows
        slot = torch.tensor([rig.worker.pool.lookup(RequestId(GOLDEN_ID)).slot])
        starts = windows.context_lens[slot]
        assert starts.item() == golden["anchor_position"].item()
        readable = windows.readable(starts, windows.valid_lens[slot])
        check_round(case.model, golden, windows.read(slot), readable)


def golden_row_of(rig: Rig, states: Tensor, bonus: int) -> Row:
    """A generation row that accepts exactly these states and then `bonus`; the rest is rejected."""
    count = states.shape[0]
    row = rig.row(count)
    row.targets[count - 1] = bonus
    if count < len(row.inputs):
        row.inputs[count] = (bonus + 1) % rig.deployment.target.vocab_size
    return attrs.evolve(row, captured=torch.cat((states, rig.captured(rig.width - count) * 9)))


def insert(rows: dict[int, Item], golden: dict[int, Item], index: int) -> dict[int, Item]:
    """The golden row put in at this place."""
    items = list(rows.items())
    return dict([*items[:index], *golden.items(), *items[index:]])


def make_rig(case: Case, max_num_requests: int) -> Rig:
    """A worker around the case's model, with room for the golden rounds."""
    model = case.model
    drafter = model.config
    decoding = (
        DSparkDecodingConfig(max_draft_len=case.num_drafts)
        if isinstance(model, DSparkDraftModel)
        else DFlashDecodingConfig(max_draft_len=case.num_drafts)
    )
    last = int(case.rounds[-1]["anchor_position"])
    deployment = Deployment(
        target=TargetConfig(
            hidden_size=drafter.target_hidden_size,
            num_layers=max(drafter.layers_to_capture) + 2,
            vocab_size=drafter.vocab_size,
            max_position_embeddings=drafter.max_position_embeddings,
        ),
        drafter=drafter,
        decoding=decoding,
        engine=EngineConfig(
            max_num_requests=max_num_requests,
            num_seq_slots=max_num_requests + 2,
            max_num_tokens=8192,
            max_seq_len=min(drafter.max_position_embeddings or 2**20, max(last + 64, 192)),
            dtype="float32",
        ),
    )
    worker = (
        DSparkWorker(deployment, model)
        if isinstance(model, DSparkDraftModel)
        else DFlashWorker(deployment, model)
    )
    return Rig(worker, deployment, torch.Generator().manual_seed(5))
