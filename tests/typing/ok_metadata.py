"""Correct construction and use of metadata: clean under both checkers."""

from typing import assert_type

from specmeta import (
    Deployment,
    DFlashSpecMetadata,
    DSparkSpecMetadata,
    MTPSpecMetadata,
    RequestId,
    SamplingParams,
    SeqSlot,
    get_spec_metadata,
)


def an_executor_builds_metadata(deployment: Deployment) -> DSparkSpecMetadata:
    metadata = get_spec_metadata(
        deployment,
        request_ids=(RequestId(7), RequestId(9)),
        num_contexts=1,
        seq_lens=(12, 8),
        context_positions=(0,),
    )
    assert_type(metadata, DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata)
    assert isinstance(metadata, DSparkSpecMetadata)
    return metadata


def every_field_by_keyword() -> DSparkSpecMetadata:
    return DSparkSpecMetadata(
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
        dtype="float32",
        window_size=32,
        num_stages=2,
        block_size=7,
    )


def derived_metadata_keeps_its_class(metadata: DSparkSpecMetadata) -> None:
    assert_type(
        metadata.with_batch(
            request_ids=(RequestId(7),), num_contexts=0, seq_lens=(8,), context_positions=()
        ),
        DSparkSpecMetadata,
    )
    assert_type(metadata.create_cuda_graph_metadata(8), DSparkSpecMetadata)
    assert_type(metadata.select([0]), DSparkSpecMetadata)
    assert_type(metadata.concat(metadata), DSparkSpecMetadata)


def sampled_rows(metadata: DSparkSpecMetadata) -> DSparkSpecMetadata:
    params = SamplingParams(temperature=0.7, seed=3)
    return metadata.with_batch(
        request_ids=(RequestId(7),),
        num_contexts=0,
        seq_lens=(8,),
        context_positions=(),
        sampling=(params,),
    )


def fields_have_precise_types(metadata: DSparkSpecMetadata) -> None:
    assert_type(metadata.request_ids, tuple[RequestId, ...])
    assert_type(metadata.num_seq_slots, int)
    assert_type(metadata.all_rank_num_generations, tuple[int, ...] | None)
    assert_type(metadata.sampling, tuple[SamplingParams, ...] | None)
    assert_type(metadata.num_generations, int)
    assert_type(metadata.is_cuda_graph, bool)


def an_id_and_a_slot_are_ints(request_id: RequestId, slot: SeqSlot) -> int:
    return request_id + slot
