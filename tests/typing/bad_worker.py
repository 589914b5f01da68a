"""What is not a worker's metadata: a marked line is an error, `mypy codes | pyright rules`."""

from types import SimpleNamespace
from unittest.mock import AsyncMock, MagicMock, Mock

from torch import Tensor

from specmeta import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata
from specmeta_workers import DFlashWorker, DSparkWorker, MTPWorker


def a_namespace(worker: DSparkWorker, x: Tensor) -> None:
    stub = SimpleNamespace(request_ids=(7,), num_seq_slots=4)
    worker.forward(  # E: call-overload | reportCallIssue
        stub,  # E: - | reportArgumentType
        input_ids=x,
        logits=x,
        captured=x,
    )
    worker.seed(  # E: call-overload | reportCallIssue
        stub,  # E: - | reportArgumentType
        input_ids=x,
        next_tokens=x,
        captured=x,
    )


def the_metadata_of_another_worker(
    worker: DSparkWorker, metadata: DFlashSpecMetadata, x: Tensor
) -> None:
    worker.forward(  # E: call-overload | reportCallIssue
        metadata,  # E: - | reportArgumentType
        input_ids=x,
        logits=x,
        captured=x,
    )


def nothing(worker: DSparkWorker, x: Tensor) -> None:
    worker.forward(  # E: call-overload | reportCallIssue
        None,  # E: - | reportArgumentType
        input_ids=x,
        logits=x,
        captured=x,
    )


def metadata_that_may_be_absent(
    worker: DSparkWorker, metadata: DSparkSpecMetadata | None, x: Tensor
) -> None:
    worker.forward(  # E: - | reportCallIssue
        metadata,  # E: arg-type | reportArgumentType
        input_ids=x,
        logits=x,
        captured=x,
    )


# typeshed derives Mock from Any, so a mock is assignable to every class; the workers refuse it with
# an overload of its own, which is marked deprecated.


def a_mock(worker: DSparkWorker, x: Tensor) -> None:
    stub = Mock()
    worker.forward(stub, input_ids=x, logits=x, captured=x)  # E: deprecated | reportDeprecated


def a_mock_with_a_spec(worker: DSparkWorker, x: Tensor) -> None:
    stub = Mock(spec=DSparkSpecMetadata)
    worker.forward(stub, input_ids=x, logits=x, captured=x)  # E: deprecated | reportDeprecated


def a_magic_mock(worker: DSparkWorker, x: Tensor) -> None:
    stub = MagicMock(request_ids=(7,), num_seq_slots=4)
    worker.forward(stub, input_ids=x, logits=x, captured=x)  # E: deprecated | reportDeprecated


def an_async_mock(worker: DSparkWorker, x: Tensor) -> None:
    stub = AsyncMock()
    worker.forward(stub, input_ids=x, logits=x, captured=x)  # E: deprecated | reportDeprecated


def a_mock_for_the_seed(worker: DSparkWorker, x: Tensor) -> None:
    worker.seed(  # E: deprecated | reportDeprecated
        Mock(),
        input_ids=x,
        next_tokens=x,
        captured=x,
    )


def a_mock_for_another_worker(dflash: DFlashWorker, mtp: MTPWorker, x: Tensor) -> None:
    stub = Mock()
    dflash.forward(stub, input_ids=x, logits=x, captured=x)  # E: deprecated | reportDeprecated
    mtp.forward(stub, input_ids=x, logits=x, captured=x)  # E: deprecated | reportDeprecated
    dflash.seed(  # E: deprecated | reportDeprecated
        stub,
        input_ids=x,
        next_tokens=x,
        captured=x,
    )
    mtp.seed(  # E: deprecated | reportDeprecated
        MagicMock(spec=MTPSpecMetadata),
        input_ids=x,
        next_tokens=x,
        captured=x,
    )


def the_metadata_of_one_worker_for_another(
    dflash: DFlashWorker, mtp: MTPWorker, metadata: DSparkSpecMetadata, x: Tensor
) -> None:
    dflash.forward(  # E: call-overload | reportCallIssue
        metadata,  # E: - | reportArgumentType
        input_ids=x,
        logits=x,
        captured=x,
    )
    mtp.seed(  # E: call-overload | reportCallIssue
        metadata,  # E: - | reportArgumentType
        input_ids=x,
        next_tokens=x,
        captured=x,
    )


def a_seed_step_without_its_tokens(
    worker: DSparkWorker, metadata: DSparkSpecMetadata, x: Tensor
) -> None:
    worker.seed(metadata, next_tokens=x, captured=x)  # E: call-overload | reportCallIssue
