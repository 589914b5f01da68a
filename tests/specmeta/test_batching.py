"""From one batch to the next: with_batch, select, concat, graph buckets, the factory."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmeta import (
    Deployment,
    DFlashSpecMetadata,
    DSparkDecodingConfig,
    DSparkSpecMetadata,
    MTPSpecMetadata,
    RequestId,
    SamplingParams,
    ValidationError,
    get_spec_metadata,
)
from specmeta._drafting import drafting_is_valid, explain_drafting
from specmeta._rows import explain_rows, reserved_floor, rows_are_valid
from specmeta.testing import (
    make_deployment,
    make_dflash_metadata,
    make_dspark_metadata,
    make_mtp_metadata,
    spec_metadata,
)

BATCH = make_dspark_metadata(
    request_ids=(11, 12, 13, 14),
    num_contexts=2,
    seq_lens=(5, 6, 8, 1),
    context_positions=(0, 40),
    finished_request_ids=(9,),
)
Ids = tuple[RequestId, ...]


def ids(*values: int) -> Ids:
    return tuple(RequestId(value) for value in values)


def test_counts_follow_from_the_rows() -> None:
    padded = BATCH.model_copy(update={"num_padding": 2})
    assert (padded.num_generations, padded.num_rows, padded.num_tokens) == (2, 6, 20)
    assert padded.scratch_slot == padded.num_seq_slots == 16


def test_with_batch_keeps_the_static_part_and_forgets_the_old_batch() -> None:
    following = BATCH.with_batch(
        request_ids=ids(21), num_contexts=0, seq_lens=(8,), context_positions=()
    )
    assert following == make_dspark_metadata(
        request_ids=(21,), num_contexts=0, seq_lens=(8,), context_positions=()
    )


def test_with_batch_validates() -> None:
    with pytest.raises(ValidationError, match=r"request_ids\[1\]: 0 is the attention-DP dummy"):
        BATCH.with_batch(
            request_ids=ids(1, 0), num_contexts=0, seq_lens=(1, 1), context_positions=()
        )


@pytest.mark.parametrize("request_ids", [None, 5, [11], (i for i in (11, 12)), {11}])
def test_with_batch_of_a_graph_bucket_refuses_what_is_no_tuple(request_ids: Any) -> None:
    graph = BATCH.create_cuda_graph_metadata(6)
    with pytest.raises(ValidationError) as caught:
        graph.with_batch(
            request_ids=request_ids, num_contexts=0, seq_lens=(8,), context_positions=()
        )
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("tuple_type", ("request_ids",))


def test_with_batch_refills_a_graph_bucket() -> None:
    graph = make_dspark_metadata().create_cuda_graph_metadata(4)
    following = graph.with_batch(
        request_ids=ids(1, 2, 3), num_contexts=0, seq_lens=(1, 8, 2), context_positions=()
    )
    assert (following.num_padding, following.num_rows, following.is_cuda_graph) == (1, 4, True)
    with pytest.raises(ValidationError, match="rows_beyond_max_num_requests"):
        graph.with_batch(
            request_ids=ids(1, 2, 3, 4, 5), num_contexts=0, seq_lens=(1,) * 5, context_positions=()
        )


def test_select_keeps_contexts_first_in_every_per_row_field() -> None:
    part = BATCH.select([3, 1])
    assert part.request_ids == (12, 14)
    assert part.num_contexts == 1
    assert part.seq_lens == (6, 1)
    assert part.context_positions == (40,)
    assert part.finished_request_ids == (9,)
    assert part.max_num_requests == BATCH.max_num_requests


def test_selecting_every_row_changes_nothing() -> None:
    assert BATCH.select(range(4)) == BATCH
    graph = make_dspark_metadata().create_cuda_graph_metadata(8)
    assert graph.select([0, 1]) == graph
    assert graph.select([1]).num_padding == 7


@pytest.mark.parametrize(
    ("rows", "index", "fact"),
    [
        ([0, 4], 1, "4 is not an int from 0 to 3"),
        ([-1], 0, "-1 is not"),
        ([1, 1], 1, "given twice"),
        ([True], 0, "True is not"),
        (["0"], 0, "'0' is not"),
    ],
)
def test_select_refuses_rows_that_do_not_exist(rows: list[Any], index: int, fact: str) -> None:
    with pytest.raises(ValidationError, match=fact) as caught:
        BATCH.select(rows)
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("row_selection_invalid", ("rows", index))


@pytest.mark.parametrize(
    "rows", [iter([0, 2]), {0, 2}, {0: 1}, b"\x00\x02", "02", 2, None, slice(0, 2)], ids=repr
)
@pytest.mark.parametrize("batch", [BATCH, BATCH.create_cuda_graph_metadata(6)])
def test_select_refuses_rows_without_an_order_or_a_second_reading(
    batch: DSparkSpecMetadata, rows: Any
) -> None:
    with pytest.raises(ValidationError, match="is not a sequence of ints") as caught:
        batch.select(rows)
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("row_selection_invalid", ("rows",))


@pytest.mark.parametrize("rows", [[3, 0], (3, 0), range(3, -1, -3)])
def test_select_takes_any_sequence_of_ints(rows: Any) -> None:
    assert BATCH.select(rows).request_ids == (11, 14)


def test_selecting_nothing_is_no_batch() -> None:
    with pytest.raises(ValidationError, match="rows_absent"):
        BATCH.select([])


def test_concat_puts_all_contexts_before_all_generations() -> None:
    other = make_dspark_metadata(
        request_ids=(21, 22),
        num_contexts=1,
        seq_lens=(3, 2),
        context_positions=(7,),
        num_padding=1,
        finished_request_ids=(9, 8),
    )
    joined = BATCH.concat(other)
    assert joined.request_ids == (11, 12, 21, 13, 14, 22)
    assert joined.num_contexts == 3
    assert joined.seq_lens == (5, 6, 3, 8, 1, 2)
    assert joined.context_positions == (0, 40, 7)
    assert joined.finished_request_ids == (9, 8)
    assert joined.num_padding == 1


def test_concat_of_graph_batches_fills_the_bucket() -> None:
    graph = make_dspark_metadata().create_cuda_graph_metadata(8)
    other = graph.with_batch(
        request_ids=ids(1), num_contexts=0, seq_lens=(1,), context_positions=()
    )
    joined = graph.concat(other)
    assert (len(joined.request_ids), joined.num_padding) == (3, 5)


def test_concat_refuses_another_shape_or_class() -> None:
    other = make_dspark_metadata(request_ids=(21,), window_size=64)
    with pytest.raises(ValidationError, match="window_size: 64 is not the first part's 32"):
        BATCH.concat(other)
    with pytest.raises(TypeError, match="DFlashSpecMetadata"):
        BATCH.concat(make_dflash_metadata(request_ids=(21,)))  # type: ignore[arg-type]


def test_concat_names_long_values_shortly() -> None:
    wide = BATCH.model_copy(update={"layers_to_capture": tuple(range(500))})
    with pytest.raises(
        ValidationError, match=r"layers_to_capture: \(0, 1, .*\.\.\.\) is"
    ) as caught:
        BATCH.concat(wide)
    assert len(str(caught.value)) < 300


def test_concat_refuses_a_request_in_both_batches() -> None:
    with pytest.raises(ValidationError, match=r"request_ids\[2\]: 11 repeats request_ids\[0\]"):
        BATCH.concat(BATCH.select([0]))


def test_a_graph_bucket_narrows_the_batch_and_never_the_pool() -> None:
    metadata = make_dspark_metadata()
    graph = metadata.create_cuda_graph_metadata(4)
    assert graph.max_num_requests == 4
    assert graph.num_seq_slots == metadata.num_seq_slots == 16
    assert (graph.num_padding, graph.is_cuda_graph) == (2, True)
    assert (metadata.max_num_requests, metadata.is_cuda_graph) == (8, False)
    smaller = graph.create_cuda_graph_metadata(2)
    assert (smaller.num_padding, smaller.num_seq_slots) == (0, 16)


@pytest.mark.parametrize("bucket", [1, 9, 0, -1, True, "4", 4.0, None])
def test_a_bucket_below_the_rows_or_above_the_shape_is_refused(bucket: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        make_dspark_metadata().create_cuda_graph_metadata(bucket)
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("graph_bucket_out_of_range", ("max_batch_size",))
    assert f"max_batch_size: {bucket!r} is not an int from 2 (rows) to 8" in line["msg"]


def test_padding_of_a_bucket_counts_as_tokens() -> None:
    tight = make_dspark_metadata(max_num_tokens=16)
    with pytest.raises(ValidationError, match="tokens_beyond_max_num_tokens"):
        tight.create_cuda_graph_metadata(4)


@pytest.mark.parametrize(
    ("decoding_type", "model"),
    [("DSpark", DSparkSpecMetadata), ("DFlash", DFlashSpecMetadata), ("MTP", MTPSpecMetadata)],
)
def test_the_factory_returns_the_class_of_the_deployment(decoding_type: Any, model: type) -> None:
    deployment = make_deployment(decoding_type, num_seq_slots=4, max_num_requests=1)
    metadata = get_spec_metadata(
        deployment, request_ids=ids(7), num_contexts=1, seq_lens=(3,), context_positions=(5,)
    )
    assert type(metadata) is model
    assert (metadata.num_seq_slots, metadata.max_num_requests) == (4, 1)
    assert metadata.num_stages == deployment.drafter.num_layers
    assert metadata.dtype == "float32"


def test_the_factory_copies_what_the_drafter_needs() -> None:
    deployment = make_deployment(
        target_layer_ids=(1, 4), layer_id_convention="input_of_layer", sliding_window=None
    )
    metadata = get_spec_metadata(
        deployment, request_ids=ids(7), num_contexts=0, seq_lens=(3,), context_positions=()
    )
    assert isinstance(metadata, DSparkSpecMetadata)
    assert metadata.layers_to_capture == (0, 3)
    assert metadata.window_size == deployment.engine.max_seq_len
    assert metadata.block_size == 7


@pytest.mark.parametrize(
    "other", [SimpleNamespace(), MagicMock(spec=Deployment), None, {}, "DSpark"]
)
def test_the_factories_take_nothing_but_a_deployment(other: Any) -> None:
    with pytest.raises(TypeError, match=f"takes a Deployment, not {type(other).__name__}"):
        get_spec_metadata(
            other, request_ids=ids(1), num_contexts=0, seq_lens=(1,), context_positions=()
        )
    if other is not None:  # which is the default there
        with pytest.raises(TypeError, match="factories take a Deployment, not"):
            make_dspark_metadata(other)


@pytest.mark.parametrize("decoding_type", ["dspark", None, []])
def test_the_deployment_factory_names_the_methods(decoding_type: Any) -> None:
    with pytest.raises(TypeError, match=r"takes one of DSpark, DFlash, MTP, not"):
        make_deployment(decoding_type)


@pytest.mark.parametrize("decoding", [None, 5, MagicMock(spec=DSparkDecodingConfig)])
def test_the_deployment_factory_leaves_a_bad_part_to_validation(decoding: Any) -> None:
    with pytest.raises(ValidationError, match="decoding"):
        make_deployment(decoding=decoding)


def test_factories_for_tests_validate_overrides() -> None:
    with pytest.raises(ValidationError, match="num_seq_slots"):
        make_dspark_metadata(num_seq_slots=0)
    with pytest.raises(TypeError, match="field of no part"):
        make_deployment(block=7)
    with pytest.raises(TypeError, match="give it in target="):
        make_deployment(num_layers=7)
    with pytest.raises(TypeError, match="is for DSpark, not MTP"):
        make_mtp_metadata(make_deployment("DSpark"))
    assert make_mtp_metadata(make_deployment("MTP", num_seq_slots=99)).num_seq_slots == 99


def test_factories_for_tests_follow_the_rows_that_are_given() -> None:
    metadata = make_dspark_metadata(request_ids=(1, 2, 3), num_contexts=2)
    assert metadata.seq_lens == (4, 4, 8)
    assert metadata.context_positions == (0, 0)
    assert make_dspark_metadata(max_num_requests=64).num_seq_slots == 64
    assert make_dspark_metadata(max_num_requests=1).request_ids == (101,)
    deployment = make_deployment(engine=make_deployment(max_num_requests=3).engine)
    assert deployment.engine.max_num_requests == 3


@given(spec_metadata(), st.data())
def test_select_and_concat_are_inverse(metadata: Any, data: st.DataObject) -> None:
    rows = range(len(metadata.request_ids))
    chosen = sorted(data.draw(st.sets(st.sampled_from(rows)) if rows else st.just(set())))
    rest = [row for row in rows if row not in chosen]
    if not chosen or not rest:
        return
    plain = metadata.model_copy(update={"num_padding": 0, "all_rank_num_generations": None})
    joined = plain.select(chosen).concat(plain.select(rest))
    before, after = (
        {
            request_id: (length, params)
            for request_id, length, params in zip(
                m.request_ids,
                m.seq_lens,
                m.sampling if m.sampling is not None else (None,) * len(rows),
                strict=True,
            )
        }
        for m in (plain, joined)
    )
    assert after == before
    assert (joined.sampling is None) == (plain.sampling is None)
    assert joined.num_contexts == plain.num_contexts
    assert sorted(joined.context_positions) == sorted(plain.context_positions)


small = st.integers(-1, 5)
counts = st.lists(small, max_size=5).map(tuple)
near_floor = st.integers(reserved_floor(3) - 1, 2**64 + 1)
some_ids = st.lists(st.integers(-1, 6) | near_floor, max_size=5).map(tuple)


@given(
    st.fixed_dictionaries(
        {
            "request_ids": some_ids,
            "finished_request_ids": some_ids,
            "seq_lens": counts,
            "context_positions": counts,
            "all_rank_num_generations": st.none() | counts,
            "sampling": st.none() | counts,  # only its length matters here
            "uniform_rows": st.booleans(),
            "layers_to_capture": counts,
            "num_contexts": st.integers(0, 5),
            "num_padding": st.integers(0, 5),
            "max_draft_len": st.integers(1, 5),
            "max_num_requests": st.integers(1, 6),
            "num_seq_slots": st.integers(1, 6),
            "max_num_tokens": st.integers(1, 30),
            "block_size": st.integers(1, 6),
            "window_size": st.integers(1, 6),
        }
    )
)
def test_the_fast_pass_and_the_explanation_agree(fields: dict[str, Any]) -> None:
    unchecked = DSparkSpecMetadata.__new__(DSparkSpecMetadata)
    vars(unchecked).update(fields)  # what documentation calls sabotage
    assert rows_are_valid(fields) == (not [*chain(*explain_rows(unchecked))])
    assert drafting_is_valid(fields) == (not [*chain(*explain_drafting(unchecked))])


def test_under_attention_dp_another_batch_needs_new_counts() -> None:
    first = make_dspark_metadata(request_ids=(3, 4), all_rank_num_generations=(2, 5))
    second = make_dspark_metadata(request_ids=(6,))
    batch: dict[str, Any] = {
        "request_ids": (RequestId(3),),
        "num_contexts": 0,
        "seq_lens": (8,),
        "context_positions": (),
    }
    changes: tuple[Callable[..., DSparkSpecMetadata], ...] = (
        partial(first.with_batch, **batch),
        partial(first.select, [0]),
        partial(first.concat, second),
        partial(second.concat, first),
    )
    for change in changes:
        with pytest.raises(ValidationError) as caught:
            change()
        (line,) = caught.value.errors()
        assert (line["type"], line["loc"]) == ("rank_counts_absent", ("all_rank_num_generations",))
        assert change(all_rank_num_generations=(1, 5)).all_rank_num_generations == (1, 5)
    assert first.create_cuda_graph_metadata(4).all_rank_num_generations == (2, 5)


def sampled(*seeds: int) -> tuple[SamplingParams, ...]:
    return tuple(SamplingParams(temperature=0.5, seed=seed) for seed in seeds)


NEXT: dict[str, Any] = {
    "request_ids": ids(21, 22),
    "num_contexts": 0,
    "seq_lens": (8, 1),
    "context_positions": (),
}
SAMPLED = BATCH.model_copy(update={"sampling": sampled(1, 2, 3, 4)})


def test_select_concat_and_graph_buckets_carry_the_sampling_of_each_row() -> None:
    assert SAMPLED.select([3, 1]).sampling == sampled(2, 4)
    other = SAMPLED.with_batch(
        request_ids=ids(21, 22),
        num_contexts=1,
        seq_lens=(3, 2),
        context_positions=(7,),
        sampling=sampled(21, 22),
    )
    assert SAMPLED.concat(other).sampling == sampled(1, 2, 21, 3, 4, 22)
    assert SAMPLED.create_cuda_graph_metadata(8).sampling == sampled(1, 2, 3, 4)
    assert BATCH.select([3, 1]).sampling is None
    assert BATCH.concat(BATCH.with_batch(**NEXT)).sampling is None


def test_a_sampled_batch_is_followed_by_one_with_sampling_of_its_own() -> None:
    assert SAMPLED.with_batch(**NEXT, sampling=sampled(5, 6)).sampling == sampled(5, 6)
    with pytest.raises(ValidationError, match="one SamplingParams a row") as caught:
        SAMPLED.with_batch(**NEXT)
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("sampling_absent", ("sampling",))
    with pytest.raises(ValidationError, match="sampling: has 4 entries for 2 rows"):
        SAMPLED.with_batch(**NEXT, sampling=SAMPLED.sampling)
    assert BATCH.with_batch(**NEXT, sampling=sampled(5, 6)).sampling == sampled(5, 6)


def test_padding_alone_has_no_row_to_sample() -> None:
    nothing: dict[str, Any] = {
        "request_ids": (),
        "num_contexts": 0,
        "seq_lens": (),
        "context_positions": (),
        "num_padding": 2,
    }
    padding = SAMPLED.with_batch(**nothing, sampling=())
    assert padding.sampling == ()
    assert padding.concat(SAMPLED).sampling == SAMPLED.sampling
    with pytest.raises(ValidationError, match="sampling_absent"):
        padding.with_batch(**NEXT)


@pytest.mark.parametrize("flip", [False, True])
def test_concat_refuses_sampled_beside_greedy_rows(flip: bool) -> None:
    parts = [SAMPLED, BATCH.with_batch(**NEXT)]
    first, second = reversed(parts) if flip else parts
    with pytest.raises(ValidationError, match="None in one part and given in another") as caught:
        first.concat(second)
    (line,) = caught.value.errors()
    assert (line["type"], line["loc"]) == ("sampling_absent", ("sampling",))


def test_the_factories_pass_on_or_make_up_the_sampling() -> None:
    deployment = make_deployment(use_rejection_sampling=True)
    metadata = get_spec_metadata(deployment, **NEXT, sampling=sampled(1, 2))
    assert metadata.sampling == sampled(1, 2)
    made = make_dspark_metadata(deployment, request_ids=(1, 2, 3)).sampling
    assert made is not None
    assert [params.seed for params in made] == [0, 1, 2]
    assert make_dspark_metadata(deployment, sampling=sampled(8, 9)).sampling == sampled(8, 9)
    assert make_dspark_metadata().sampling is None


def test_built_parameters_are_taken_as_they_are_and_mappings_are_validated() -> None:
    (params,) = sampled(7)
    fields = dict(vars(make_dspark_metadata()))
    metadata = DSparkSpecMetadata(**{**fields, "sampling": (params, params)})
    assert metadata.sampling is not None
    assert metadata.sampling[0] is metadata.sampling[1] is params
    mapped = DSparkSpecMetadata(**{**fields, "sampling": (params.model_dump(), params)})
    assert mapped == metadata
    with pytest.raises(ValidationError, match="seed: is required"):
        DSparkSpecMetadata(**{**fields, "sampling": ({"temperature": 1.0}, params)})


def test_a_thousand_rows_of_built_parameters_run_no_rule_of_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = sampled(*range(1024))
    fields = dict(
        vars(make_dspark_metadata(request_ids=tuple(range(1, 1025)), max_num_requests=1024))
    )
    runs: list[object] = []

    def probe(params: SamplingParams) -> tuple[()]:
        runs.append(params)
        return ()

    monkeypatch.setattr(SamplingParams, "broken_rules", probe)
    SamplingParams(temperature=0.5, seed=7)
    assert len(runs) == 1  # the probe works
    assert DSparkSpecMetadata(**{**fields, "sampling": rows}).sampling is rows
    assert len(runs) == 1
