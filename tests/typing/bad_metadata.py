"""Metadata that cannot be right: a marked line is an error, `mypy codes | pyright rules`."""

from specmeta import (
    Deployment,
    DSparkSpecMetadata,
    RequestId,
    SamplingParams,
    SeqSlot,
    get_spec_metadata,
)


def request_ids_are_missing() -> None:
    DSparkSpecMetadata(  # E: call-arg | reportCallIssue
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
        num_seq_slots=4,
        max_num_requests=1,
        max_num_tokens=64,
        max_draft_len=7,
        layers_to_capture=(0, 2),
        hidden_size=64,
        dtype="float32",
        window_size=32,
        num_stages=2,
        block_size=7,
    )


def num_seq_slots_is_missing() -> None:
    DSparkSpecMetadata(  # E: call-arg | reportCallIssue
        request_ids=(RequestId(7),),
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
        max_num_requests=1,
        max_num_tokens=64,
        max_draft_len=7,
        layers_to_capture=(0, 2),
        hidden_size=64,
        dtype="float32",
        window_size=32,
        num_stages=2,
        block_size=7,
    )


def the_keyword_is_unknown() -> None:
    DSparkSpecMetadata(  # E: call-arg | -
        request_ids=(RequestId(7),),
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
        num_seq_slots=4,
        num_seq_slot=4,  # E: - | reportCallIssue
        max_num_requests=1,
        max_num_tokens=64,
        max_draft_len=7,
        layers_to_capture=(0, 2),
        hidden_size=64,
        dtype="float32",
        window_size=32,
        num_stages=2,
        block_size=7,
    )


def the_dtype_does_not_exist() -> None:
    DSparkSpecMetadata(
        request_ids=(RequestId(7),),
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
        num_seq_slots=4,
        max_num_requests=1,
        max_num_tokens=64,
        max_draft_len=7,
        layers_to_capture=(0, 2),
        hidden_size=64,
        dtype="fp16",  # E: arg-type | reportArgumentType
        window_size=32,
        num_stages=2,
        block_size=7,
    )


def the_factory_needs_request_ids(deployment: Deployment) -> None:
    get_spec_metadata(  # E: call-arg | reportCallIssue
        deployment, num_contexts=0, seq_lens=(8,), context_positions=()
    )


def the_next_batch_needs_request_ids(metadata: DSparkSpecMetadata) -> None:
    metadata.with_batch(  # E: call-arg | reportCallIssue
        num_contexts=0, seq_lens=(8,), context_positions=()
    )


def a_slot_is_no_request_id(deployment: Deployment, slot: SeqSlot) -> None:
    get_spec_metadata(
        deployment,
        request_ids=(slot,),  # E: arg-type | reportArgumentType
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
    )


def a_plain_int_is_no_request_id(metadata: DSparkSpecMetadata, number: int) -> None:
    metadata.with_batch(
        request_ids=(number,),  # E: arg-type | reportArgumentType
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
    )


def a_list_is_no_tuple(metadata: DSparkSpecMetadata) -> None:
    metadata.with_batch(
        request_ids=(RequestId(7),),
        num_contexts=0,
        seq_lens=[8],  # E: arg-type | reportArgumentType
        context_positions=(),
    )


def a_seed_is_required() -> None:
    SamplingParams(temperature=0.7)  # E: call-arg | reportCallIssue


def a_row_without_parameters(metadata: DSparkSpecMetadata) -> None:
    metadata.with_batch(
        request_ids=(RequestId(7),),
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
        sampling=(None,),  # E: arg-type | reportArgumentType
    )


def metadata_is_immutable(metadata: DSparkSpecMetadata) -> None:
    metadata.num_seq_slots = 1  # E: misc | reportAttributeAccessIssue
    metadata.request_ids = (RequestId(1),)  # E: misc | reportAttributeAccessIssue


def nothing_is_attached_to_metadata(metadata: DSparkSpecMetadata) -> None:
    metadata.slot_ids = (0,)  # E: attr-defined | reportAttributeAccessIssue


class Extended(DSparkSpecMetadata, frozen=True):  # E: misc | reportGeneralTypeIssues
    """A leaf is final."""
