"""Rules on the rows of a batch."""

from ._rule import Rule

_SEED_FORWARD = "NVIDIA/TensorRT-LLM#16767"
_SLOT_POOL = "NVIDIA/TensorRT-LLM#17154"

REQUEST_ID_NOT_POSITIVE = Rule(
    "request_id_not_positive",
    "R1",
    "0 is the id of the attention-DP dummy: every request under it shares one state",
    "pass the request's own id (> 0), and count dummy rows in num_padding",
    (
        _SEED_FORWARD,
        "vllm-project/vllm#43810",
    ),
)
REQUEST_ID_RESERVED = Rule(
    "request_id_reserved",
    "R3",
    "the top ids belong to the CUDA-graph padding requests, one for each draft length",
    "pass real requests only, and count dummy rows in num_padding",
    ("NVIDIA/TensorRT-LLM#4729",),
)
REQUEST_ID_REPEATED = Rule(
    "request_id_repeated",
    "R1",
    "two rows under one id write the same slot",
    "give each row the id of its own request, and count dummy rows in num_padding",
    (
        "NVIDIA/TensorRT-LLM#4729",
        "NVIDIA/TensorRT-LLM#16548",
        "ggml-org/llama.cpp#27342",
        "vllm-project/vllm#47066",
    ),
)
ROWS_ABSENT = Rule(
    "rows_absent",
    "R3",
    "a forward without rows has no shape",
    "skip the step, or pad it with num_padding where other ranks run it",
)
ROWS_BEYOND_MAX_NUM_REQUESTS = Rule(
    "rows_beyond_max_num_requests",
    "R4",
    "batch-position buffers have max_num_requests entries",
    "schedule fewer rows, or use the metadata of a larger shape",
    (_SLOT_POOL,),
)
TOKENS_BEYOND_MAX_NUM_TOKENS = Rule(
    "tokens_beyond_max_num_tokens",
    "R4",
    "token buffers have max_num_tokens rows; a padding row takes max_draft_len + 1 of them",
    "chunk the prefill further or schedule fewer rows",
)
NUM_CONTEXTS_BEYOND_ROWS = Rule(
    "num_contexts_beyond_rows",
    "R6",
    "contexts are the first num_contexts rows",
    "count only the context rows of request_ids",
)
LENGTHS_DISAGREE = Rule(
    "lengths_disagree",
    "R6",
    "a per-row field that is too short shifts one request's values onto another's row",
    "filter and merge batches with select(...) and concat(...), which act on every per-row field",
    (
        "sgl-project/sglang#14180",
        "sgl-project/sglang#2711",
        "sgl-project/sglang#14368",
        "sgl-project/sglang#14536",
        "sgl-project/sglang-jax#1293",
        "vllm-project/vllm-ascend#12640",
    ),
)
SEQ_LEN_NOT_POSITIVE = Rule(
    "seq_len_not_positive",
    "R14",
    "an active row feeds at least one token to the target",
    "leave the row out of the batch, or pass the number of its tokens",
    (
        "vllm-project/vllm#50021",
        "noonghunna/club-3090#758",
        "vllm-project/vllm#56451",
    ),
)
GENERATION_ROW_TOO_LONG = Rule(
    "generation_row_too_long",
    "R7",
    "a generation row is its last token and at most max_draft_len drafts",
    "put context rows first and count them in num_contexts, or verify fewer drafts",
    (
        "ProjectDMX/DMI#67",
        "vllm-project/vllm#14645",
    ),
)
CONTEXT_POSITION_NEGATIVE = Rule(
    "context_position_negative",
    "R5",
    "positions are absolute and start at 0",
    "pass the absolute position of the first token of the chunk",
)
FINISHED_REQUEST_IN_BATCH = Rule(
    "finished_request_in_batch",
    "R2",
    "a slot that is released and used in one step loses its window",
    "release the request in the step after its last one",
)
RANK_COUNTS_ABSENT = Rule(
    "rank_counts_absent",
    "R6",
    "another batch has other counts, and ranks that disagree on them wait for each other for ever",
    "gather the counts of the new batch and pass all_rank_num_generations",
    ("NVIDIA/TensorRT-LLM#17095",),
)
RANK_COUNTS_INVALID = Rule(
    "rank_counts_invalid",
    "R6",
    "attention-DP ranks must agree on the shape of a step",
    "pass one count (0 or more) for each rank, or None without attention DP",
)
SAMPLING_ABSENT = Rule(
    "sampling_absent",
    "R16",
    "rows of one batch are sampled or verified greedily together, so parameters may not get lost",
    "pass one SamplingParams a row: temperature=0 for a greedy one, () where padding is alone",
)
NUM_SEQ_SLOTS_TOO_SMALL = Rule(
    "num_seq_slots_too_small",
    "R4",
    "slot-indexed state needs a row for every request of a batch, and for those between batches",
    "pass the engine's slot pool: EngineConfig.sized(...) computes it",
    (_SLOT_POOL,),
)
GRAPH_BUCKET_OUT_OF_RANGE = Rule(
    "graph_bucket_out_of_range",
    "R4",
    "a graph bucket holds every real row and fits into the shape that it narrows",
    "pick the smallest cuda_graph_batch_size that is not below the number of rows",
)
ROW_SELECTION_INVALID = Rule(
    "row_selection_invalid",
    "R6",
    "rows are indices into request_ids",
    "pass each wanted row once, as an int from 0 to len(request_ids) - 1",
)
STATIC_PART_DIFFERS = Rule(
    "static_part_differs",
    "R12",
    "the rows of a forward, and the steps of a worker, share draft length, layers, window, buffers",
    "build all metadata from one deployment; only a graph bucket narrows max_num_requests",
    (
        "vllm-project/vllm#51042",
        "vllm-project/vllm#51538",
    ),
)
ROWS_NOT_UNIFORM = Rule(
    "rows_not_uniform",
    "R6",
    "kernels that need one length for every row of a step fail or read beyond the short ones",
    "batch rows of one length together, or set engine.uniform_rows to False where kernels allow it",
    ("MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#57",),
)
