"""Rules between recorded steps."""

from ._rule import Rule

_SEED_FORWARD = "NVIDIA/TensorRT-LLM#16767"
_SLOT_POOL = "NVIDIA/TensorRT-LLM#17154"
_SPARK = "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark"

REQUEST_NOT_SEEDED = Rule(
    "request_not_seeded",
    "R1",
    "a request without a context row has no slot of its own: it drafts from another's state, or "
    "from an empty window",
    "run its context, or a seed step behind a transfer or a prefix hit, under the same id first",
    (_SEED_FORWARD, "NVIDIA/TensorRT-LLM#16772", "NVIDIA/TensorRT-LLM#17619"),
)
REQUEST_RELEASED = Rule(
    "request_released",
    "R2",
    "a released slot belongs to whichever request came next",
    "release a request behind its last step, or run its whole context again",
    (f"{_SPARK}#3", "vllm-project/vllm#56734"),
)
RELEASE_UNKNOWN = Rule(
    "release_unknown",
    "R2",
    "a release that frees nothing often means that another id was to be released, whose slot leaks",
    "release each request once, under the id that it was seeded with",
    severity="warning",
)
CHUNK_NOT_CONTIGUOUS = Rule(
    "chunk_not_contiguous",
    "R5",
    "a gap or an overlap shifts every later token of the drafter's window",
    "send the chunk that starts where the last one ended, at its absolute position",
    (
        "Anbeeld/beellama.cpp#28",
        "ggml-org/llama.cpp#26478",
        "ggml-org/llama.cpp#18039",
        "ikawrakow/ik_llama.cpp#2296",
    ),
)
CONTEXT_RESTARTED = Rule(
    "context_restarted",
    "R5",
    "a chunk at position 0 empties the window of a request that is still live",
    "pass the chunk's absolute position, or release the request first to compute it again",
    ("NVIDIA/TensorRT-LLM#15808", "ggml-org/llama.cpp#22105"),
)
CONTEXT_AFTER_GENERATION = Rule(
    "context_after_generation",
    "R5",
    "a chunk below the committed tokens writes over what the request has generated",
    "start it behind the committed tokens, or release the request first to compute it again",
)
SLOTS_EXHAUSTED = Rule(
    "slots_exhausted",
    "R4",
    "a request without a slot would share another's",
    "release finished requests, preempt one, or raise num_seq_slots: see EngineConfig.sized(...)",
    (_SLOT_POOL,),
)
SEQUENCE_TOO_LONG = Rule(
    "sequence_too_long",
    "R15",
    "positions beyond max_seq_len have no room in buffers and maps that were sized by it",
    "end the request at max_seq_len, or raise engine.max_seq_len",
)
WINDOW_SHORT_AFTER_PREFIX = Rule(
    "window_short_after_prefix",
    "R5",
    "behind a prefix hit or a transfer, drafts are poor until generated tokens have filled the "
    "window",
    "seed the last window_size positions of the context: keep their captured states beside the KV",
    (f"{_SPARK}#223", "sgl-project/sglang#34043"),
    severity="warning",
)
