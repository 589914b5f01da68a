"""Correct use of a worker: clean under both checkers."""

from typing import assert_type

from torch import Tensor

from specmeta import Deployment, DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata
from specmeta.testing import make_deployment, make_dspark_metadata
from specmeta_workers import (
    DFlashWorker,
    DraftOutput,
    DSparkDraftModel,
    DSparkWorker,
    MTPWorker,
    StepWorker,
)


def a_worker_takes_its_own_metadata(
    deployment: Deployment, draft_model: DSparkDraftModel, metadata: DSparkSpecMetadata, x: Tensor
) -> DraftOutput:
    worker = DSparkWorker(deployment, draft_model)
    seeded = worker.seed(metadata, input_ids=x, next_tokens=x, captured=x)
    drafted = worker.forward(metadata, input_ids=x, logits=x, captured=x)
    assert_type(seeded, DraftOutput)
    assert_type(drafted.draft_tokens, Tensor)
    return drafted


def a_test_uses_the_factories(worker: DSparkWorker, x: Tensor) -> None:
    metadata = make_dspark_metadata(make_deployment(num_seq_slots=4, max_num_requests=1))
    assert_type(metadata, DSparkSpecMetadata)
    worker.forward(metadata, input_ids=x, logits=x, captured=x)


def the_other_workers_take_theirs(
    dflash: DFlashWorker,
    mtp: MTPWorker,
    for_dflash: DFlashSpecMetadata,
    for_mtp: MTPSpecMetadata,
    x: Tensor,
) -> None:
    assert_type(dflash.forward(for_dflash, input_ids=x, logits=x, captured=x), DraftOutput)
    assert_type(mtp.seed(for_mtp, input_ids=x, next_tokens=x, captured=x), DraftOutput)
    assert_type(mtp.hidden_states, Tensor)
    dflash.capture_graphs()


def every_worker_is_a_step_worker(
    dspark: DSparkWorker, dflash: DFlashWorker, mtp: MTPWorker
) -> tuple[StepWorker, ...]:
    return dspark, dflash, mtp
