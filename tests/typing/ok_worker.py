"""Correct use of a worker: clean under both checkers."""

from typing import assert_type

from torch import Tensor

from specmeta import Deployment, DSparkSpecMetadata
from specmeta.testing import make_deployment, make_dspark_metadata
from specmeta_workers import DraftOutput, DSparkDraftModel, DSparkWorker


def a_worker_takes_its_own_metadata(
    deployment: Deployment, draft_model: DSparkDraftModel, metadata: DSparkSpecMetadata, x: Tensor
) -> DraftOutput:
    worker = DSparkWorker(deployment, draft_model)
    seeded = worker.seed(metadata, next_tokens=x, captured=x)
    drafted = worker.forward(metadata, input_ids=x, logits=x, captured=x)
    assert_type(seeded, DraftOutput)
    assert_type(drafted.draft_tokens, Tensor)
    return drafted


def a_test_uses_the_factories(worker: DSparkWorker, x: Tensor) -> None:
    metadata = make_dspark_metadata(make_deployment(num_seq_slots=4, max_num_requests=1))
    assert_type(metadata, DSparkSpecMetadata)
    worker.forward(metadata, input_ids=x, logits=x, captured=x)
