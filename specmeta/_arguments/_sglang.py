"""SGLang: the flags of its server, or their YAML."""

from .. import _rules as rules
from .._types import DecodingType
from ._build import Gathered, Pool, read_dtype
from ._emit import to_yaml
from ._fields import Section
from ._records import Count, Unchecked
from ._written import GATE, Choices, Wording, Written, dtype_of, flags_of, given, notes_on, parallel

LABEL = "SGLang"
SPELLED = {
    "max_draft_len": "speculative-num-draft-tokens",
    "max_num_requests": "max-running-requests",
    "max_num_tokens": "max-prefill-tokens",
    "max_seq_len": "context-length",
    "dtype": "dtype",
}
OWN = frozenset(
    {
        "chunked_prefill_size", "context_length", "cuda_graph_bs", "cuda_graph_bs_decode",
        "disable_cuda_graph", "max_prefill_tokens", "max_running_requests", "mem_fraction_static",
        "model_path", "speculative_algorithm", "speculative_draft_model_path",
        "speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_num_steps",
    }
)  # fmt: skip
"""Arguments by which a file is known as this engine's."""

_METHODS: dict[str, DecodingType] = {
    "DSPARK": "DSpark",
    "DFLASH": "DFlash",
    "NEXTN": "MTP",
    "EAGLE": "MTP",  # what the engine makes of NEXTN; whether the drafter is one, its file says
}
_MODES = {"null": False, "prefill": True, "decode": True}
_LOSSY = "accepts drafts that the target would not have sampled"
_TABLES = "how many drafts are verified follows a table that is not opened"
_UNCHECKED = {
    "speculative_accept_threshold_single": Unchecked(1.0, _LOSSY),
    "speculative_accept_threshold_acc": Unchecked(1.0, _LOSSY),
    "speculative_adaptive": Unchecked(neutral=False, effect="changes the draft length as it runs"),
    "speculative_use_block_verification": Unchecked(
        neutral=False, effect="accepts drafts by another rule than the standard one"
    ),
    "speculative_draft_window_size": Unchecked(
        None, "narrows the drafter's window below its checkpoint's"
    ),
    "speculative_dspark_sps_table_path": Unchecked(None, _TABLES),
    "speculative_dspark_confidence_sts_path": Unchecked(None, _TABLES),
}
_IRRELEVANT = frozenset(
    {
        "speculative_adaptive_config", "speculative_attention_mode",
        "speculative_domino_candidate_pool_size", "speculative_draft_attention_backend",
        "speculative_draft_kv_cache_dtype", "speculative_draft_load_format",
        "speculative_draft_model_quantization", "speculative_draft_model_revision",
        "speculative_draft_sink_size", "speculative_dsa_topk_backend",
        "speculative_dspark_align_verify_tokens_to_graph_tier",
        "speculative_enable_w4a4_mxfp4_megamoe", "speculative_moe_a2a_backend",
        "speculative_moe_runner_backend", "speculative_skip_dp_mlp_sync", "speculative_token_map",
    }
)  # fmt: skip
# Arguments that say how many drafts: tokens that are not drafts in each, and its only method.
_LENGTHS: tuple[tuple[str, int, DecodingType | None], ...] = (
    ("speculative_num_draft_tokens", 1, None),
    ("speculative_dspark_block_size", 0, "DSpark"),
    ("speculative_dflash_block_size", 1, "DFlash"),
    ("speculative_num_steps", 0, None),
)


def read(section: Section) -> Gathered:
    """What the arguments say."""
    found = Gathered(SPELLED, section, section)
    found.model = section.text("model_path", "model")
    found.draft_model = section.text("speculative_draft_model_path", "speculative_draft_model")
    named = section.find("speculative_algorithm", "speculative_algo")
    if named is None:
        section.absent("speculative-algorithm", "is not given (the method)")
    else:
        unknown = rules.METHOD_NOT_SUPPORTED
        found.method = section.choose(named, _METHODS, unknown, any_case=True)
        section.locate(("decoding", "decoding_type"), named)
    _read_length(found, section)
    _read_sampling(found, section)
    _read_sizes(found, section)
    section.unread(_UNCHECKED, _IRRELEVANT, prefix="speculative_")
    return found


def _read_length(found: Gathered, section: Section) -> None:
    """Drafts from what is counted: verified tokens, which are one more, or steps, or the block."""
    counts: list[tuple[int, Count]] = []  # drafts, and the argument that says so
    for name, anchor, method in _LENGTHS:
        count = section.whole(name)
        if count is None or (method is not None and found.method not in (None, method)):
            continue
        drafts = count.value - anchor
        if drafts < 1:
            section.report(rules.ARGUMENT_INVALID, count, "1 leaves no draft beside the anchor")
            continue
        # A block drafter runs one step; its block may be wider than what is verified of it.
        one_step = name == "speculative_num_steps" and drafts == 1 and found.method != "MTP"
        wider = name == "speculative_dflash_block_size" and bool(counts) and drafts > counts[0][0]
        if not one_step and not wider:
            counts.append((drafts, count))
    tree = section.whole("speculative_eagle_topk")
    if tree is not None and tree.value > 1:
        section.report(rules.ARGUMENT_NOT_SUPPORTED, tree, f"{tree.value} drafts a tree")
        counts = counts[:1]  # a tree's numbers of tokens and steps differ
    if not counts:
        return
    drafts, first = counts[0]
    for other, count in counts[1:]:
        if other != drafts:
            by = f"{first.origin.key} ({first.value}) is for {drafts}"
            fact = f"{count.value} is for {other} drafts although {by}"
            section.report(rules.DRAFT_TOKENS_DISAGREE, count, fact)
    section.put_found(found.decoding, ("decoding", "max_draft_len"), Count(drafts, first.origin))


def _read_sampling(found: Gathered, section: Section) -> None:
    name = "speculative_use_rejection_sampling"
    switch = section.find(name)
    if switch is None or not section.flag(name):
        return
    if found.method in ("DSpark", "DFlash"):
        fact = f"is for NEXTN and EAGLE, and not read with {found.method.upper()}"
        section.report(rules.ARGUMENT_NOT_READ, switch, fact)
    else:
        section.put_found(found.decoding, ("decoding", "use_rejection_sampling"), switch)


def _read_sizes(found: Gathered, section: Section) -> None:
    ranks = _ranks(section)
    at: dict[str, tuple[str, ...]] = {
        "max_seq_len": ("context_length",),
        "tensor_parallel_size": ("tensor_parallel_size", "tp_size", "tp"),
        "pipeline_parallel_size": ("pipeline_parallel_size", "pp_size", "pp"),
    }
    for name, names in at.items():
        section.put(found.engine, ("engine", name), *names)
    rows = section.find("max_running_requests")
    if rows is not None:
        if type(rows.value) is int and 0 < rows.value < ranks:
            fact = f"{rows.value} requests are fewer than the {ranks} ranks that share them"
            section.report(rules.ARGUMENTS_DISAGREE, rows, fact)
        else:
            if type(rows.value) is int:
                rows = rows._replace(value=rows.value // ranks)
            section.put_found(found.engine, ("engine", "max_num_requests"), rows)
    _read_tokens(found, section, ranks)
    read_dtype(found)
    if not section.flag("disable_cuda_graph"):
        sizes = section.wholes("cuda_graph_bs", "cuda_graph_bs_decode")
        if sizes is not None:
            section.put_found(found.engine, ("engine", "cuda_graph_batch_sizes"), sizes)
        else:
            section.engine_chooses(section.find("cuda_graph_max_bs", "cuda_graph_max_bs_decode"))
    mode = section.find("disaggregation_mode")
    parts = None if mode is None else section.choose(mode, _MODES, rules.ARGUMENT_INVALID)
    found.pool = Pool(of_each_stage=False, disaggregated=parts is True)


def _ranks(section: Section) -> int:
    """Ranks of DP attention, over which the engine divides requests and chunks of prompts."""
    size = section.whole("dp_size", "data_parallel_size", "dp")
    switch = section.find("enable_dp_attention")
    if switch is None or not section.flag("enable_dp_attention"):
        return 1
    if size is None or size.value == 1:
        section.report(rules.ARGUMENT_NOT_READ, switch, "does nothing without a dp-size above 1")
        return 1
    shared = "max-running-requests and chunked-prefill-size"
    fact = f"{shared} are for {size.value} ranks together, and read for one"
    section.report(rules.ARGUMENT_NOT_READ, switch, fact)
    return size.value


def _read_tokens(found: Gathered, section: Section, ranks: int) -> None:
    """Tokens of one forward: the smaller budget of prompts, but a full batch of drafts at least,
    which the engine verifies whatever those budgets are.
    """
    budgets = [section.whole("max_prefill_tokens")]
    chunk = section.find("chunked_prefill_size")
    if chunk is not None and chunk.value != -1:  # -1 turns chunks off
        size = section.whole("chunked_prefill_size")
        budgets.append(size and size._replace(value=size.value // ranks))
    given = [*filter(None, budgets)]
    if not given:
        return
    least = min(given, key=lambda budget: budget.value)
    rows, length = found.engine.get("max_num_requests"), found.decoding.get("max_draft_len")
    if type(rows) is int and type(length) is int:
        least = least._replace(value=max(least.value, rows * (length + 1)))
    section.put_found(found.engine, ("engine", "max_num_tokens"), least)


def write(choices: Choices) -> Written:
    """The configuration, and the flags behind ``python -m sglang.launch_server``."""
    decoding, engine = choices.decoding, choices.engine
    sampling, is_mtp = decoding.use_rejection_sampling, decoding.decoding_type == "MTP"
    fields = given(
        {
            "model-path": choices.model,
            "dtype": dtype_of(engine),
            "max-running-requests": engine.max_num_requests,
            "max-prefill-tokens": engine.max_num_tokens,
            "chunked-prefill-size": engine.max_num_tokens,
            "context-length": engine.max_seq_len,
            "tp-size": parallel(engine.tensor_parallel_size),
            "pp-size": parallel(engine.pipeline_parallel_size),
            "cuda-graph-bs": engine.cuda_graph_batch_sizes or None,
            "speculative-algorithm": "NEXTN" if is_mtp else decoding.decoding_type.upper(),
            "speculative-draft-model-path": choices.draft_model,
            "speculative-num-steps": decoding.max_draft_len if is_mtp else None,
            "speculative-eagle-topk": 1 if is_mtp else None,
            "speculative-num-draft-tokens": decoding.max_draft_len + 1,
            "speculative-use-rejection-sampling": True if sampling and is_mtp else None,
        }
    )
    wording = Wording(
        label=LABEL,
        pool=engine.max_num_requests,
        eager="add disable-cuda-graph",
        draft_model="speculative-draft-model-path",
        unsupported=GATE if is_mtp else ("use_rejection_sampling", *GATE),
        whole_block=True,
    )
    return Written(to_yaml(fields), flags_of(fields), tuple(notes_on(choices, wording)))
