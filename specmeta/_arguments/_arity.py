"""How many values stand behind a flag: what is needed to tell the target's name from them."""

import re

_ONE_VALUE = frozenset(
    {
        "O", "cc", "chunked_prefill_size", "compilation_config", "context_length", "dp", "dp_size",
        "dtype", "gpu_memory_utilization", "host", "max_batch_size", "max_model_len",
        "max_num_batched_tokens", "max_num_seqs", "max_num_tokens", "max_prefill_tokens",
        "max_running_requests", "max_seq_len", "mem_fraction_static", "model", "model_path",
        "pipeline_parallel_size", "port", "pp", "pp_size", "sc", "seed", "spec_method",
        "spec_model", "spec_tokens", "speculative_algorithm", "speculative_config",
        "speculative_draft_model_path", "speculative_num_draft_tokens", "speculative_num_steps",
        "tensor_parallel_size", "tp", "tp_size",
    }
)  # fmt: skip
_NO_VALUE = frozenset(
    {
        "disable_cuda_graph", "enable_dp_attention", "enable_expert_parallel", "enforce_eager",
        "speculative_use_rejection_sampling", "trust_remote_code",
    }
)  # fmt: skip
_ARRAY = re.compile(r"\$[@*]|\$\{\w+\[[@*]\]\}")
_NAMED_SO = re.compile(r"\$\{?\w*(?:ARG|EXTRA|FLAG|OPT)\w*\}?", re.IGNORECASE)


def takes(flag: str, given: int, word: str) -> bool:
    """Whether a word behind a flag that has this many values is another one of them. Flags that
    are not known take all.
    """
    name = flag.replace("-", "_")
    if name in _NO_VALUE:
        return given == 0 and word.lower() in ("true", "false")
    return given == 0 or not (name in _ONE_VALUE or "." in name)


def holds_flags(word: str) -> bool:
    """Whether a word is the variable of a shell in which further flags stand, by its name."""
    return _ARRAY.fullmatch(word) is not None or _NAMED_SO.fullmatch(word) is not None
