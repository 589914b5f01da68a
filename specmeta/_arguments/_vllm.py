"""vLLM: its YAML configuration, or the flags of ``vllm serve``."""

import json
import re

from .. import _rules as rules
from .._errors import show
from .._types import DecodingType
from ._build import Gathered, read_dtype
from ._emit import to_yaml
from ._fields import Section
from ._records import Found, Unchecked
from ._vllm_graphs import read_graphs
from ._written import GATE, Choices, Wording, Written, dtype_of, flags_of, given, notes_on, parallel

LABEL = "vLLM"
SPELLED = {
    "max_draft_len": "num_speculative_tokens",
    "max_num_requests": "max-num-seqs",
    "max_num_tokens": "max-num-batched-tokens",
    "max_seq_len": "max-model-len",
    "dtype": "dtype",
}
OWN = frozenset(
    {
        "compilation_config", "cudagraph_capture_sizes", "enforce_eager", "gpu_memory_utilization",
        "kv_transfer_config", "max_model_len", "max_num_batched_tokens", "max_num_seqs",
        "spec_method", "spec_model", "spec_tokens", "speculative_config",
    }
)  # fmt: skip
"""Arguments by which a file is known as this engine's."""

_METHODS: dict[str, DecodingType] = {"dspark": "DSpark", "dflash": "DFlash", "mtp": "MTP"}
_BRIEF = {
    "spec_method": "method",
    "spec_tokens": "num_speculative_tokens",
    "spec_model": "model",
}
_BY_RATIO = {"greedy": False, "probabilistic": True}
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([kmgtKMGT])")
_IN_SECTION = {
    "draft_sample_method": "draft_sample_method",
    "draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "enable_adaptive_verification": "enable_adaptive_verification",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
    "num_speculative_tokens": "num_speculative_tokens",
    "rejection_sample_method": "rejection_sample_method",
    "spec_decoding_acceptance_method": "rejection_sample_method",
    "speculative_draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "speculative_max_model_len": "max_model_len",
    "speculative_method": "method",
    "speculative_model": "model",
    "speculative_model_quantization": "quantization",
}
"""Names that are no arguments beside the object of speculation, and what they are in it."""

_CLAIMED = "drafts are accepted at a rate that is made up"
_UNCHECKED = {
    "enable_adaptive_verification": Unchecked(
        neutral=False, effect="how many drafts are verified follows their confidence and the load"
    ),
    "num_speculative_tokens_per_batch_size": Unchecked(
        None, "changes the draft length with the batch"
    ),
    "parallel_drafting": Unchecked(neutral=False, effect="drafts all tokens in one forward"),
    "use_heterogeneous_vocab": Unchecked(
        neutral=False, effect="drafts from the tokens that two vocabularies share"
    ),
    "max_model_len": Unchecked(None, "sequences beyond it are not speculated on"),
    "dspark_draft_topk": Unchecked(None, "corrects only the likeliest drafts by the Markov head"),
    "synthetic_acceptance_rates": Unchecked(None, _CLAIMED),
    "synthetic_acceptance_length": Unchecked(None, _CLAIMED),
}
_IRRELEVANT = frozenset(
    {
        "attention_backend", "code_revision", "disable_eagle_block_drop",
        "disable_padded_drafter_batch", "draft_load_config", "draft_tensor_parallel_size",
        "enforce_eager", "index_share_for_mtp_iteration", "kv_cache_dtype", "moe_backend",
        "prompt_lookup_max", "prompt_lookup_min", "quantization", "revision",
        "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor",
        "suffix_decoding_max_tree_depth", "suffix_decoding_min_token_prob",
        "use_local_argmax_reduction",
    }
)  # fmt: skip


# What nobody calls it, and many would.
_SPELT_OTHERWISE = ("spec_config", "spec_decode_config", "spec_decoding_config")


def read(section: Section) -> Gathered:
    """What the arguments say."""
    found = Gathered(SPELLED, section)
    found.model = section.text("model", "model_tag")
    briefs = any(section.find(name, expanded=True) for name in _BRIEF)
    found.speculation = section.section(
        "speculative_config", "sc", needed=None if briefs else "speculative-config"
    )
    if found.speculation is not None or briefs:
        _read_speculation(found, section)
    for name, meant in _IN_SECTION.items():
        misplaced = section.find(name, expanded=True)
        if misplaced is not None:
            fact = f"is no argument beside speculative-config, which has {meant!r}"
            section.report(rules.ARGUMENT_MISSPELT, misplaced, fact)
    for name in _SPELT_OTHERWISE:
        other = section.find(name)
        if other is not None:
            section.report(rules.ARGUMENT_MISSPELT, other, "is no argument: speculative-config is")
    section.unread({}, frozenset(), prefix="spec")
    _read_sizes(found, section)
    return found


def _read_speculation(found: Gathered, section: Section) -> None:
    """The object, and the brief arguments beside it that set one field of it each."""
    speculation = found.speculation
    named, drafts, model = (
        _one_of(section, brief, speculation, name) for brief, name in _BRIEF.items()
    )
    if speculation is None:
        found.speculation = section
        found.spelled = {**SPELLED, "max_draft_len": "spec-tokens"}
    if named is None:
        (speculation or section).absent("method" if speculation else "spec-method", "is not given")
    else:
        if str(named.value).endswith("_mtp"):  # deepseek_mtp and the like: older names
            named = named._replace(value="mtp")
        found.method = section.choose(named, _METHODS, rules.METHOD_NOT_SUPPORTED)
        section.locate(("decoding", "decoding_type"), named)
    if drafts is not None:
        section.put_found(found.decoding, ("decoding", "max_draft_len"), drafts)
    found.draft_model = section.text_of(model)
    if speculation is not None:
        _read_sampling(found, speculation)
        speculation.unread(_UNCHECKED, _IRRELEVANT)


def _one_of(section: Section, brief: str, speculation: Section | None, name: str) -> Found | None:
    """A field of speculation by its brief name or, in the object, its own."""
    expanded = name == "model"
    short = section.find(brief, expanded=expanded)
    long = None if speculation is None else speculation.find(name, expanded=expanded)
    if short is not None and long is not None:
        fact = f"is given beside {long.origin.key}, and the engine refuses both"
        section.report(rules.ARGUMENTS_DISAGREE, short, fact)
    return short or long


def _read_sampling(found: Gathered, speculation: Section) -> None:
    """With greedy drafts, rejection sampling keeps a draft that the target samples: no ratio."""
    drafts = speculation.find("draft_sample_method")
    if drafts is not None:
        by_ratio = speculation.choose(drafts, _BY_RATIO, rules.ARGUMENT_INVALID)
        if by_ratio is not None:
            field = ("decoding", "use_rejection_sampling")
            speculation.put_found(found.decoding, field, drafts._replace(value=by_ratio))
    rejection = speculation.find("rejection_sample_method")
    if rejection is not None and rejection.value != "standard":
        fact = f"{show(rejection.value)} accepts drafts by another rule than the standard one"
        speculation.report(rules.ARGUMENT_NOT_READ, rejection, fact)


def _read_sizes(found: Gathered, section: Section) -> None:
    at: dict[str, tuple[str, ...]] = {
        "max_num_requests": ("max_num_seqs",),
        "tensor_parallel_size": ("tensor_parallel_size", "tp"),
        "pipeline_parallel_size": ("pipeline_parallel_size", "pp"),
    }
    for name, names in at.items():
        section.put(found.engine, ("engine", name), *names)
    _put_amount(found, section, "max_num_tokens", "max_num_batched_tokens")
    longest = section.find("max_model_len")
    if longest is not None and longest.value not in ("auto", -1):
        _put_amount(found, section, "max_seq_len", "max_model_len")
    read_dtype(found)
    if not section.flag("enforce_eager"):
        read_graphs(found, section)


def _put_amount(found: Gathered, section: Section, name: str, argument: str) -> None:
    """A size that the engine also takes as ``32k`` (thousands) and ``32K`` (times 1024)."""
    size = section.find(argument)
    if size is None:
        return
    amount = _AMOUNT.fullmatch(size.value) if isinstance(size.value, str) else None
    if amount is not None:
        number, unit = amount.groups()
        base = 1000 if unit.islower() else 1024
        if unit.islower() or "." not in number:
            scale = base ** ("kmgt".index(unit.lower()) + 1)
            size = size._replace(value=int(float(number) * scale))
    section.put_found(found.engine, ("engine", name), size)


def write(choices: Choices) -> Written:
    """The configuration, and the flags behind ``vllm serve``."""
    decoding, engine = choices.decoding, choices.engine
    width = decoding.max_draft_len + 1
    speculation = given(
        {
            "method": decoding.decoding_type.lower(),
            "model": choices.draft_model,
            "num_speculative_tokens": decoding.max_draft_len,
            "draft_sample_method": "probabilistic" if decoding.use_rejection_sampling else None,
        }
    )
    fields = given(
        {
            "model": choices.model,
            "dtype": dtype_of(engine),
            "max-num-seqs": engine.max_num_requests,
            "max-num-batched-tokens": engine.max_num_tokens,
            "max-model-len": engine.max_seq_len,
            "tensor-parallel-size": parallel(engine.tensor_parallel_size),
            "pipeline-parallel-size": parallel(engine.pipeline_parallel_size),
            "cudagraph-capture-sizes": tuple(n * width for n in engine.cuda_graph_batch_sizes)
            or None,
            "speculative-config": json.dumps(speculation),  # as text, every version reads it
        }
    )
    wording = Wording(
        label=LABEL,
        pool=engine.max_num_requests,
        eager="add enforce-eager",
        draft_model="model to speculative-config",
        unsupported=GATE,
    )
    return Written(to_yaml(fields), flags_of(fields), tuple(notes_on(choices, wording)))
