"""TensorRT-LLM: the YAML of its LLM API."""

from .. import _rules as rules
from .._types import DecodingType
from ._build import Gathered, Pool, read_dtype
from ._emit import to_yaml
from ._fields import Section
from ._records import Unchecked
from ._written import (
    GATE,
    Choices,
    Wording,
    Written,
    dtype_of,
    given,
    notes_on,
    parallel,
)

LABEL = "TensorRT-LLM"
SPELLED = {
    "max_draft_len": "max_draft_len",
    "max_num_requests": "max_batch_size",
    "max_num_tokens": "max_num_tokens",
    "max_seq_len": "max_seq_len",
    "dtype": "dtype",
}
OWN = frozenset(
    {
        "backend", "batching_type", "cache_transceiver_config", "cuda_graph_config",
        "disable_overlap_scheduler", "kv_cache_config", "max_batch_size", "moe_config",
        "print_iter_log", "scheduler_config", "speculative_config", "torch_compile_config",
    }
)  # fmt: skip
"""Arguments by which a file is known as this engine's."""

_METHODS: dict[str, DecodingType] = {"DSpark": "DSpark", "DFlash": "DFlash", "MTP": "MTP"}
_TRANSPORTS: dict[str, bool] = dict.fromkeys(("DEFAULT", "UCX", "NIXL", "MOONCAKE", "MPI"), True)
_FACTS = ("block_size", "mask_token_id", "target_layer_ids", "markov_rank", "markov_head_type")
_RELAXED = "accepts drafts that strict verification would reject"
_CONFIDENCE = "how many drafts are verified follows their confidence, by tables that are not opened"
_UNCHECKED = {
    "max_concurrency": Unchecked(None, "turns speculation off above a number of requests"),
    "draft_len_schedule": Unchecked(None, "changes the draft length with the batch"),
    "use_relaxed_acceptance_for_thinking": Unchecked(neutral=False, effect=_RELAXED),
    "use_dynamic_tree": Unchecked(neutral=False, effect="drafts a tree rather than a chain"),
    "sa_config": Unchecked(None, "takes drafts from the text before those of the drafter"),
    "enable_confidence_scheduling": Unchecked(neutral=False, effect=_CONFIDENCE),
    "enable_ragged_verify": Unchecked(neutral=False, effect=_CONFIDENCE),
    "enable_penalty": Unchecked(neutral=False, effect="penalties change what is accepted"),
}
_IRRELEVANT = frozenset(
    {
        "advanced_sampling_mode", "allow_advanced_sampling", "attention_backend",
        "begin_thinking_phase_token", "confidence_sps_table_path", "confidence_sts_path",
        "confidence_verify_len_tiers", "enable_fused_confidence_scheduler",
        "end_thinking_phase_token", "load_format", "mtp_eagle_one_model", "relaxed_delta",
        "relaxed_topk", "use_mtp_vanilla",
    }
)  # fmt: skip


def read(section: Section) -> Gathered:
    """What the arguments say."""
    found = Gathered(SPELLED, section)
    found.speculation = section.section("speculative_config", needed="speculative_config")
    found.model = section.text("model")
    if found.speculation is not None:
        _read_speculation(found, found.speculation)
    _read_sizes(found, section)
    return found


def _read_speculation(found: Gathered, speculation: Section) -> None:
    named = speculation.find("decoding_type")
    if named is None:
        speculation.absent("decoding_type", "is not given (the method)")
    else:
        found.method = speculation.choose(named, _METHODS, rules.METHOD_NOT_SUPPORTED)
        speculation.locate(("decoding", "decoding_type"), named)
    speculation.put(
        found.decoding,
        ("decoding", "max_draft_len"),
        "max_draft_len",
        "num_nextn_predict_layers",
        "max_total_draft_tokens",
        rule=rules.DRAFT_TOKENS_DISAGREE,
    )
    for name in ("use_rejection_sampling", *GATE):
        speculation.put(found.decoding, ("decoding", name), name)
    for name in _FACTS:
        speculation.put(found.stated, ("stated", name), name)
    found.draft_model = speculation.text("speculative_model", "speculative_model_dir")
    speculation.unread(_UNCHECKED, _IRRELEVANT)


def _read_sizes(found: Gathered, section: Section) -> None:
    at: dict[str, tuple[str, ...]] = {
        "max_num_requests": ("max_batch_size",),
        "max_num_tokens": ("max_num_tokens",),
        "max_seq_len": ("max_seq_len",),
        "tensor_parallel_size": ("tensor_parallel_size", "tp_size"),
        "pipeline_parallel_size": ("pipeline_parallel_size", "pp_size"),
    }
    for name, names in at.items():
        section.put(found.engine, ("engine", name), *names)
    read_dtype(found)
    graphs = section.section("cuda_graph_config")
    if graphs is not None:
        graphs.put(found.engine, ("engine", "cuda_graph_batch_sizes"), "batch_sizes")
        if "cuda_graph_batch_sizes" not in found.engine:
            graphs.engine_chooses(graphs.find("max_batch_size"))
    overlap = not section.flag("disable_overlap_scheduler")
    found.pool = Pool(
        of_each_stage=True,
        overlap_headroom=section.flag("enable_attention_dp") and overlap,
        disaggregated=_transfers(section),
    )


def _transfers(section: Section) -> bool:
    """Whether requests are handed over between servers."""
    transfer = section.section("cache_transceiver_config")
    backend = None if transfer is None else transfer.find("backend")
    if transfer is None or backend is None:
        return False
    # Older versions have them in small letters.
    transfer.choose(backend, _TRANSPORTS, rules.ARGUMENT_INVALID, any_case=True)
    return True


def write(choices: Choices) -> Written:
    """The configuration; its command has no flags for speculation."""
    decoding, engine = choices.decoding, choices.engine
    sizes = engine.cuda_graph_batch_sizes
    speculation = given(
        {
            "decoding_type": decoding.decoding_type,
            "max_draft_len": decoding.max_draft_len,
            "speculative_model": choices.draft_model,
            "use_rejection_sampling": True if decoding.use_rejection_sampling else None,
            **{name: getattr(decoding, name) for name in GATE},
            **{name: choices.stated.get(name) for name in _FACTS},
        }
    )
    fields = {
        "model": choices.model,
        "dtype": dtype_of(engine),
        "max_batch_size": engine.max_num_requests,
        "max_num_tokens": engine.max_num_tokens,
        "max_seq_len": engine.max_seq_len,
        "tensor_parallel_size": parallel(engine.tensor_parallel_size),
        "pipeline_parallel_size": parallel(engine.pipeline_parallel_size),
        "cuda_graph_config": {"batch_sizes": sizes, "enable_padding": True} if sizes else None,
        "speculative_config": speculation,
    }
    wording = Wording(
        label=LABEL,
        pool=engine.max_num_requests * engine.pipeline_parallel_size,
        eager="set cuda_graph_config to null",
        draft_model="speculative_config.speculative_model",
        facts=_FACTS,
        whole_block=True,
    )
    return Written(to_yaml(given(fields)), [], tuple(notes_on(choices, wording)))
