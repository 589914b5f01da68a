"""Slot-indexed draft probabilities."""

from __future__ import annotations

import torch

from specmeta.testing import make_deployment, make_dspark_metadata
from specmeta_workers._acceptance import RejectionAcceptance, make_acceptance
from specmeta_workers._draft_probs import DraftProbabilities

CPU = torch.device("cpu")


def make() -> DraftProbabilities:
    return DraftProbabilities(num_slots=5, max_draft_len=3, vocab_size=4, device=CPU)


def test_the_buffer_has_a_row_for_each_slot_and_one_for_padding() -> None:
    assert make().probs.shape == (6, 3, 4)
    assert make().probs.dtype == torch.float32


def test_a_slot_keeps_what_was_written_whatever_row_it_is_read_in() -> None:
    kept = make()
    first, second = torch.rand(2, 4), torch.rand(2, 4)
    kept.write(torch.tensor([4, 1]), 0, first)
    kept.write(torch.tensor([4, 1]), 2, second)
    found = kept.read(torch.tensor([1, 4]))
    assert torch.equal(found[:, 0], first.flip(0))
    assert torch.equal(found[:, 2], second.flip(0))
    assert not found[:, 1].any()


def test_a_request_that_is_absent_for_steps_keeps_its_distributions() -> None:
    kept = make()
    mine = torch.rand(1, 4)
    kept.write(torch.tensor([3]), 0, mine)
    for others in ([0, 1], [1, 5], [2, 4, 0]):  # other rows, other batch sizes, padding
        kept.write(torch.tensor(others), 0, torch.rand(len(others), 4))
    assert torch.equal(kept.read(torch.tensor([3]))[:, 0], mine)


def test_the_scratch_row_lies_behind_the_pool_and_not_behind_a_graph_bucket() -> None:
    """Derived from a narrowed batch size it would be the row of a live request."""
    deployment = make_deployment(num_seq_slots=8, max_num_requests=4, use_rejection_sampling=True)
    acceptance = make_acceptance(deployment, CPU)
    assert isinstance(acceptance, RejectionAcceptance)
    length, vocab_size = deployment.decoding.max_draft_len, deployment.target.vocab_size
    assert acceptance.draft_probs.probs.shape == (9, length, vocab_size)
    bucket = make_dspark_metadata(deployment).create_cuda_graph_metadata(2)
    assert (bucket.max_num_requests, bucket.num_seq_slots) == (2, 8)


def test_padding_rows_touch_the_scratch_row_alone() -> None:
    kept = make()
    kept.write(torch.tensor([2]), 1, torch.rand(1, 4))
    before, address = kept.probs[:5].clone(), kept.probs.data_ptr()
    kept.write(torch.tensor([5, 5, 5]), 1, torch.rand(3, 4))
    assert torch.equal(kept.probs[:5], before)
    assert kept.probs.data_ptr() == address


def test_what_was_read_does_not_change_with_the_next_drafts() -> None:
    """A step reads the distributions of its drafts and then writes those of the next."""
    kept = make()
    found = kept.read(torch.tensor([0, 5]))
    kept.write(torch.tensor([0, 5]), 0, torch.ones(2, 4))
    assert not found.any()
