"""Hypothesis strategies of valid deployments and metadata; hypothesis is imported with this
module.
"""

from typing import Any

from hypothesis import strategies as st

from ._deployment import Deployment
from ._factory import get_spec_metadata
from ._metadata import DFlashSpecMetadata, DSparkSpecMetadata, MTPSpecMetadata
from ._rows import reserved_floor
from ._sampling import SamplingParams
from ._types import DecodingType, RequestId
from .testing import make_deployment

_Metadata = DSparkSpecMetadata | DFlashSpecMetadata | MTPSpecMetadata
_KINDS: tuple[DecodingType, ...] = ("DSpark", "DFlash", "MTP")


@st.composite
def deployments(draw: st.DrawFn, decoding_type: DecodingType | None) -> Deployment:
    """Any valid deployment, of one decoding type or of all."""
    kind = draw(st.sampled_from(_KINDS)) if decoding_type is None else decoding_type
    positions = draw(st.integers(64, 4096))
    target_layers = draw(st.integers(1, 80))
    sizes = {"hidden_size": draw(st.integers(1, 8192)), "vocab_size": draw(st.integers(2, 2**18))}
    drafter: dict[str, Any] = {
        "num_layers": draw(st.integers(1, 6)),
        "max_position_embeddings": draw(st.integers(positions, 2 * positions)),
        **draw(_layers()),
    }
    if kind == "MTP":
        draft_len = drafter["num_layers"] * draw(st.integers(1, 3))
        drafter["target_hidden_state"] = draw(
            st.sampled_from(("before_final_norm", "after_final_norm"))
        )
    else:
        drafter |= draw(_block_drafters(target_layers, sizes["vocab_size"]))
        most = drafter["block_size"] - (drafter["anchor_convention"] == "mask_at_position")
        draft_len = draw(st.integers(1, most))
    drafter["sliding_window"] = draw(st.none() | st.integers(draft_len + 1, 512))
    if kind == "DSpark":
        drafter |= draw(_dspark_heads())
    gate = draw(st.none() | st.tuples(st.integers(1, 1000), st.floats(0, 1)))
    decoding: dict[str, Any] = {
        "max_draft_len": draft_len,
        "use_rejection_sampling": draw(st.booleans()),
        "acceptance_rate_window_size": gate and gate[0],
        "acceptance_rate_threshold": gate and gate[1],
    }
    if drafter.get("enable_confidence_head", False):
        decoding["confidence_threshold"] = draw(st.none() | st.floats(0, 1))
        decoding["steps_per_second"] = draw(st.none() | _step_rates())
    requests = draw(st.integers(1, 64))
    needed = requests * (draft_len + 1)
    engine: dict[str, Any] = {
        "max_num_requests": requests,
        "num_seq_slots": draw(st.integers(requests, 4 * requests)),
        "max_num_tokens": draw(st.integers(needed, needed + 512)),
        "max_seq_len": draw(st.integers(draft_len + 1, positions)),
        "dtype": draw(st.sampled_from(("float64", "float32", "bfloat16", "float16"))),
        "cuda_graph_batch_sizes": tuple(sorted(draw(st.sets(st.integers(1, requests))))),
    }
    target = {
        "num_layers": target_layers,
        "max_position_embeddings": positions,
        "hc_mult": draw(st.integers(1, 4)),
    }
    return make_deployment(
        kind, **sizes, target=target, drafter=drafter, decoding=decoding, engine=engine
    )


@st.composite
def _step_rates(draw: st.DrawFn) -> tuple[tuple[int, float], ...]:
    tokens = sorted(draw(st.sets(st.integers(1, 4096), min_size=1, max_size=8)))
    return tuple((count, draw(st.floats(0.1, 1e4))) for count in tokens)


@st.composite
def _layers(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads = draw(st.integers(1, 8))
    return {
        "attention_kind": draw(st.sampled_from(("grouped_query", "latent"))),
        "num_key_value_heads": kv_heads,
        "num_attention_heads": kv_heads * draw(st.integers(1, 8)),
        "head_dim": 2 * draw(st.integers(1, 128)),
        "intermediate_size": draw(st.integers(1, 2**15)),
        "rms_norm_eps": draw(st.floats(1e-8, 1e-3)),
        "rope_theta": draw(st.floats(1e3, 1e7)),
    }


@st.composite
def _block_drafters(draw: st.DrawFn, target_layers: int, vocab_size: int) -> dict[str, Any]:
    convention = draw(st.sampled_from(("output_of_layer", "input_of_layer")))
    first = -1 if convention == "output_of_layer" else 0
    layers = draw(st.sets(st.integers(first, first + target_layers), min_size=1, max_size=8))
    return {
        "block_size": draw(st.integers(2, 16)),
        "mask_token_id": draw(st.integers(0, vocab_size - 1)),
        "target_layer_ids": tuple(sorted(layers)),
        "layer_id_convention": convention,
        "anchor_convention": draw(st.sampled_from(("anchor_first", "mask_at_position"))),
        "window_causality": draw(st.sampled_from(("non_causal", "causal"))),
    }


@st.composite
def _dspark_heads(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.sampled_from((0, 8, 256)))
    confidence = draw(st.booleans())
    return {
        "markov_rank": rank,
        "markov_head_type": draw(st.sampled_from(("vanilla", "gated", "rnn"))) if rank else None,
        "enable_confidence_head": confidence,
        "confidence_head_with_markov": bool(rank) and confidence and draw(st.booleans()),
    }


@st.composite
def sampling_params(draw: st.DrawFn) -> SamplingParams:
    """Any valid parameters."""
    return SamplingParams(
        temperature=draw(st.floats(0, 10)),
        seed=draw(st.integers(0, 2**63 - 1)),
        top_k=draw(st.none() | st.integers(1, 2**18)),
        top_p=draw(st.floats(0, 1, exclude_min=True)),
    )


@st.composite
def spec_metadata(
    draw: st.DrawFn, decoding_type: DecodingType | None, deployment: Deployment | None
) -> _Metadata:
    """Any valid batch of the deployment, or of any deployment."""
    if deployment is None:
        deployment = draw(deployments(decoding_type))
    engine, width = deployment.engine, deployment.decoding.max_draft_len + 1
    rows = draw(st.integers(0, engine.max_num_requests))
    padding = draw(st.integers(0 if rows else 1, engine.max_num_requests - rows))
    contexts = draw(st.integers(0, rows))
    seq_lens = draw(st.lists(st.integers(1, width), min_size=rows, max_size=rows))
    spare = engine.max_num_tokens - padding * width - sum(seq_lens)
    if contexts and spare > 0:
        seq_lens[0] += draw(st.integers(0, spare))
    ids = st.integers(1, reserved_floor(width - 1) - 1)
    finished = draw(st.integers(0, 3))
    all_ids = draw(st.lists(ids, min_size=rows + finished, max_size=rows + finished, unique=True))
    starts = draw(
        st.lists(st.integers(0, engine.max_seq_len), min_size=contexts, max_size=contexts)
    )
    sampling = None
    if deployment.decoding.use_rejection_sampling:
        params = st.lists(sampling_params(), min_size=rows, max_size=rows)
        sampling = tuple(draw(params))
    return get_spec_metadata(
        deployment,
        request_ids=tuple(RequestId(i) for i in all_ids[:rows]),
        num_contexts=contexts,
        seq_lens=tuple(seq_lens),
        context_positions=tuple(starts),
        num_padding=padding,
        finished_request_ids=tuple(RequestId(i) for i in all_ids[rows:]),
        all_rank_num_generations=draw(
            st.none() | st.lists(st.integers(0, 64), min_size=1, max_size=4).map(tuple)
        ),
        sampling=sampling,
    )
