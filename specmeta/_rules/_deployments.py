"""Rules on what the user chooses, and on the deployment as a whole."""

from ._rule import Rule

_SLOT_POOL = "NVIDIA/TensorRT-LLM#17154"

ACCEPTANCE_GATE_INCOMPLETE = Rule(
    "acceptance_gate_incomplete",
    "R13",
    "the gate needs a window and a threshold; one alone would do nothing",
    "give both acceptance_rate_window_size and acceptance_rate_threshold, or neither",
)
STEP_RATES_NOT_INCREASING = Rule(
    "step_rates_not_increasing",
    "R13",
    "rates between two measured numbers of tokens are interpolated",
    "give at least one pair (tokens, steps a second), sorted by tokens and each number once",
)
CONFIDENCE_HEAD_ABSENT = Rule(
    "confidence_head_absent",
    "R13",
    "how many drafts are worth verifying is read from the drafter's confidence head",
    "use a drafter with a confidence head, or leave both confidence_threshold and steps_per_second "
    "None",
)
DECODING_TYPE_DIFFERS = Rule(
    "decoding_type_differs",
    "R13",
    "drafter and decoding config describe one method",
    "use the decoding config of the drafter's type",
)
HIDDEN_SIZE_DIFFERS = Rule(
    "hidden_size_differs",
    "R10",
    "the drafter's projection reads the target's hidden states",
    "pair the drafter with the target that it was trained for",
    ("vllm-project/vllm-ascend#7365",),
)
VOCAB_SIZE_DIFFERS = Rule(
    "vocab_size_differs",
    "R9",
    "draft tokens are verified by id",
    "pair the drafter with the target that it was trained for",
)
DRAFT_BEYOND_BLOCK = Rule(
    "draft_beyond_block",
    "R7",
    "a block yields block_size drafts (anchor_first) or one fewer (mask_at_position)",
    "lower max_draft_len, check the drafter's anchor_convention, or override this rule with a "
    "reason where longer blocks were measured to work",
    (
        "NVIDIA/TensorRT-LLM#16767",
        "vllm-project/vllm#46995",
        "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#143",
        "vllm-project/vllm#41834",
        "vllm-project/vllm#54011",
        "sgl-project/sglang#31016",
        "sgl-project/sglang#34023",
    ),
    overridable=True,
)
DRAFT_BEYOND_MTP_LAYERS = Rule(
    "draft_beyond_mtp_layers",
    "R7",
    "beyond its layers, MTP drafts by whole rounds of them",
    "use at most num_layers drafts, or a multiple of num_layers",
    overridable=True,
)
MAX_SEQ_LEN_BEYOND_POSITIONS = Rule(
    "max_seq_len_beyond_positions",
    "R15",
    "positions beyond the rotary range are untrained or unreadable",
    "lower engine.max_seq_len",
    (
        "NVIDIA/TensorRT-LLM#19320",
        "vllm-project/vllm#48894",
    ),
    overridable=True,
)
WINDOW_TOO_SMALL = Rule(
    "window_too_small",
    "R11",
    "the max_draft_len + 1 columns that one step writes must be distinct",
    "lower max_draft_len, or use the checkpoint's window",
)
MAX_NUM_TOKENS_TOO_SMALL = Rule(
    "max_num_tokens_too_small",
    "R4",
    "a full batch of generation rows must fit into one forward",
    "raise engine.max_num_tokens to max_num_requests * (max_draft_len + 1), or lower one of those",
    (
        "vllm-project/vllm#53970",
        "vllm-project/vllm#51256",
        "vllm-project/vllm-ascend#13717",
    ),
)
GRAPH_SIZES_NOT_INCREASING = Rule(
    "graph_sizes_not_increasing",
    "R4",
    "the smallest fitting bucket is picked in order",
    "sort the sizes and drop repeats",
)
GRAPH_SIZE_OUT_OF_RANGE = Rule(
    "graph_size_out_of_range",
    "R4",
    "a graph bucket narrows max_num_requests and never widens it",
    "use sizes from 1 to max_num_requests",
    (_SLOT_POOL,),
)
WINDOW_NOT_SUPPORTED = Rule(
    "window_not_supported",
    "R11",
    "an attention kernel that does not exist for the drafter's window fails at the first draft",
    "use a checkpoint with one of engine.supported_window_sizes, or a backend that has the kernel",
    ("vllm-project/vllm#50720",),
    overridable=True,
)
KV_ROW_TOO_SMALL = Rule(
    "kv_row_too_small",
    "R4",
    "a row that is shorter than the longest sequence with its drafts writes into the next one's",
    "raise engine.max_kv_tokens_per_request to max_seq_len + kv_reserved_steps * (max_draft_len + "
    "1)",
    (
        "sgl-project/sglang#33579",
        "sgl-project/sglang#33581",
    ),
)
STATE_BEYOND_MEMORY_LIMIT = Rule(
    "state_beyond_memory_limit",
    "R15",
    "buffers sized by every position that a model could have take the memory of the KV cache",
    "lower engine.max_seq_len, max_num_tokens or num_seq_slots, or raise state_memory_limit",
    (
        "NVIDIA/TensorRT-LLM#16005",
        "NVIDIA/TensorRT-LLM#18343",
    ),
    overridable=True,
)
COMPILED_FOR_OTHER = Rule(
    "compiled_for_other",
    "R12",
    "a graph or kernel that was compiled for other shapes runs without an error and drafts wrongly",
    "compile again, and store deployment.compile_key beside the artefact",
    (
        "vllm-project/vllm#53292",
        "vllm-project/vllm#53313",
    ),
)
OVERRIDE_INVALID = Rule(
    "override_invalid",
    "R13",
    "an override that names no rule, or one that cannot be overridden, would change nothing",
    "name a rule that `specmeta rules` lists as overridable, and give the reason",
)
OVERRIDE_REPEATED = Rule(
    "override_repeated",
    "R13",
    "of two reasons for one rule, only one would be shown",
    "keep one of them",
)
OVERRIDE_UNUSED = Rule(
    "override_unused",
    "R13",
    "an override that outlives its cause hides the next violation",
    "remove the override",
    severity="warning",
)
POSITIONS_NOT_STATED = Rule(
    "positions_not_stated",
    "R15",
    "without max_position_embeddings nothing tells whether max_seq_len fits the rotary positions",
    "look it up in the model card and add it to that config.json; a drafter's can be stated "
    "instead: stated: {max_position_embeddings: N}, or --state max_position_embeddings=N",
    severity="warning",
)
PART_UNREADABLE = Rule(
    "part_unreadable",
    "R13",
    "a deployment is checked as a whole where its parts can be read",
    "mend that file, or name another: one of this machine, relative to the deployment file",
)
PATH_OUTSIDE = Rule(
    "path_outside",
    "R13",
    "a deployment file from elsewhere must not make a check read any file of this machine",
    "move it beside the deployment file, or allow its directory with --root DIR",
)
