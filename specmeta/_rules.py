"""The rules between fields: name, purpose, public reports and remedy of each, in one registry.

The name is the ``type`` of the pydantic error that a violation raises, and stays the same between
releases. Rules that concern one field alone (a bound, a type) are in its annotation and carry
pydantic's own names.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pydantic_core import InitErrorDetails

from ._errors import line_error


class Rule(NamedTuple):
    """A rule between fields, with what it protects and what to do when it is broken."""

    name: str
    protects: str
    remedy: str
    reports: tuple[str, ...] = ()

    def broken(
        self, field: str, fact: str, *, value: object, index: int | None = None
    ) -> InitErrorDetails:
        """The error line of a violation, to be raised with others in one ``ValidationError``."""
        return line_error(self.name, field, fact, self.remedy, value=value, index=index)


_SEED_FORWARD = "NVIDIA/TensorRT-LLM#16767"
_SLOT_POOL = "NVIDIA/TensorRT-LLM#17154"

# Rows of a batch.
REQUEST_ID_NOT_POSITIVE = Rule(
    "request_id_not_positive",
    "0 is the id of the attention-DP dummy: every request under it shares one state",
    "pass the request's own id (> 0), and count dummy rows in num_padding",
    (_SEED_FORWARD,),
)
REQUEST_ID_RESERVED = Rule(
    "request_id_reserved",
    "the top ids belong to the CUDA-graph padding requests, one for each draft length",
    "pass real requests only, and count dummy rows in num_padding",
    ("NVIDIA/TensorRT-LLM#4729",),
)
REQUEST_ID_REPEATED = Rule(
    "request_id_repeated",
    "two rows under one id write the same slot",
    "give each row the id of its own request, and count dummy rows in num_padding",
    ("NVIDIA/TensorRT-LLM#4729", "NVIDIA/TensorRT-LLM#16548"),
)
ROWS_ABSENT = Rule(
    "rows_absent",
    "a forward without rows has no shape",
    "skip the step, or pad it with num_padding where other ranks run it",
)
ROWS_BEYOND_MAX_NUM_REQUESTS = Rule(
    "rows_beyond_max_num_requests",
    "batch-position buffers have max_num_requests entries",
    "schedule fewer rows, or use the metadata of a larger shape",
    (_SLOT_POOL,),
)
TOKENS_BEYOND_MAX_NUM_TOKENS = Rule(
    "tokens_beyond_max_num_tokens",
    "token buffers have max_num_tokens rows; a padding row takes max_draft_len + 1 of them",
    "chunk the prefill further or schedule fewer rows",
)
NUM_CONTEXTS_BEYOND_ROWS = Rule(
    "num_contexts_beyond_rows",
    "contexts are the first num_contexts rows",
    "count only the context rows of request_ids",
)
LENGTHS_DISAGREE = Rule(
    "lengths_disagree",
    "a per-row field that is too short shifts one request's values onto another's row",
    "filter and merge batches with select(...) and concat(...), which act on every per-row field",
)
SEQ_LEN_NOT_POSITIVE = Rule(
    "seq_len_not_positive",
    "an active row feeds at least one token to the target",
    "leave the row out of the batch, or pass the number of its tokens",
)
GENERATION_ROW_TOO_LONG = Rule(
    "generation_row_too_long",
    "a generation row is its last token and at most max_draft_len drafts",
    "put context rows first and count them in num_contexts, or verify fewer drafts",
)
CONTEXT_POSITION_NEGATIVE = Rule(
    "context_position_negative",
    "positions are absolute and start at 0",
    "pass the absolute position of the first token of the chunk",
)
FINISHED_REQUEST_IN_BATCH = Rule(
    "finished_request_in_batch",
    "a slot that is released and used in one step loses its window",
    "release the request in the step after its last one",
)
RANK_COUNTS_ABSENT = Rule(
    "rank_counts_absent",
    "another batch has other counts, and ranks that disagree on them wait for each other for ever",
    "gather the counts of the new batch and pass all_rank_num_generations",
    ("NVIDIA/TensorRT-LLM#17095",),
)
RANK_COUNTS_INVALID = Rule(
    "rank_counts_invalid",
    "attention-DP ranks must agree on the shape of a step",
    "pass one count (0 or more) for each rank, or None without attention DP",
)
SAMPLING_ABSENT = Rule(
    "sampling_absent",
    "rows of one batch are sampled or verified greedily together, so parameters may not get lost",
    "pass one SamplingParams a row: temperature=0 for a greedy one, () where padding is alone",
)
NUM_SEQ_SLOTS_TOO_SMALL = Rule(
    "num_seq_slots_too_small",
    "slot-indexed state needs a row for every request of a batch, and for those between batches",
    "pass the engine's slot pool: EngineConfig.sized(...) computes it",
    (_SLOT_POOL,),
)
GRAPH_BUCKET_OUT_OF_RANGE = Rule(
    "graph_bucket_out_of_range",
    "a graph bucket holds every real row and fits into the shape that it narrows",
    "pick the smallest cuda_graph_batch_size that is not below the number of rows",
)
ROW_SELECTION_INVALID = Rule(
    "row_selection_invalid",
    "rows are indices into request_ids",
    "pass each wanted row once, as an int from 0 to len(request_ids) - 1",
)
STATIC_PART_DIFFERS = Rule(
    "static_part_differs",
    "rows of one forward share its draft length, layers, window and buffers",
    "concatenate metadata of one deployment and one shape",
)

# Drafters and what they capture.
LAYERS_NOT_INCREASING = Rule(
    "layers_not_increasing",
    "captured states are concatenated in layer order, and each layer once",
    "sort the ids and drop repeats, in the checkpoint's own layer-id convention",
)
LAYER_OUT_OF_RANGE = Rule(
    "layer_out_of_range",
    "a layer that the target does not have is never captured",
    "check layer_id_convention: outputs are -1 ... num_layers - 1, inputs 0 ... num_layers",
    ("vllm-project/vllm#40727",),
)
MASK_TOKEN_OUT_OF_RANGE = Rule(
    "mask_token_out_of_range",
    "the mask token is looked up in the embedding",
    "use the checkpoint's mask_token_id: the bound is the embedding, not the tokenizer",
)
HEADS_NOT_DIVISIBLE = Rule(
    "heads_not_divisible",
    "each key/value head serves the same number of query heads",
    "read both from the checkpoint's config.json",
)
HEAD_DIM_ODD = Rule(
    "head_dim_odd",
    "rotary positions turn pairs of channels",
    "read head_dim from the checkpoint's config.json",
)
MARKOV_HEAD_INCONSISTENT = Rule(
    "markov_head_inconsistent",
    "markov_head_type has a meaning exactly where markov_rank is above 0",
    "give both, or markov_rank=0 and markov_head_type=None for a drafter without that head",
)
CONFIDENCE_HEAD_INCONSISTENT = Rule(
    "confidence_head_inconsistent",
    "the confidence head can read the Markov embedding only where both exist",
    "set confidence_head_with_markov=False, or enable both heads",
)

# What the user chooses, and the deployment as a whole.
ACCEPTANCE_GATE_INCOMPLETE = Rule(
    "acceptance_gate_incomplete",
    "the gate needs a window and a threshold; one alone would do nothing",
    "give both acceptance_rate_window_size and acceptance_rate_threshold, or neither",
)
STEP_RATES_NOT_INCREASING = Rule(
    "step_rates_not_increasing",
    "rates between two measured numbers of tokens are interpolated",
    "give at least one pair (tokens, steps a second), sorted by tokens and each number once",
)
CONFIDENCE_HEAD_ABSENT = Rule(
    "confidence_head_absent",
    "how many drafts are worth verifying is read from the drafter's confidence head",
    "use a drafter with a confidence head, or leave both confidence_threshold and steps_per_second "
    "None",
)
DECODING_TYPE_DIFFERS = Rule(
    "decoding_type_differs",
    "drafter and decoding config describe one method",
    "use the decoding config of the drafter's type",
)
HIDDEN_SIZE_DIFFERS = Rule(
    "hidden_size_differs",
    "the drafter's projection reads the target's hidden states",
    "pair the drafter with the target that it was trained for",
)
VOCAB_SIZE_DIFFERS = Rule(
    "vocab_size_differs",
    "draft tokens are verified by id",
    "pair the drafter with the target that it was trained for",
)
DRAFT_BEYOND_BLOCK = Rule(
    "draft_beyond_block",
    "a block yields block_size drafts (anchor_first) or one fewer (mask_at_position)",
    "lower max_draft_len, or check the drafter's anchor_convention",
    ("NVIDIA/TensorRT-LLM#16767", "vllm-project/vllm#46995"),
)
DRAFT_BEYOND_MTP_LAYERS = Rule(
    "draft_beyond_mtp_layers",
    "beyond its layers, MTP drafts by whole rounds of them",
    "use at most num_layers drafts, or a multiple of num_layers",
)
MAX_SEQ_LEN_BEYOND_POSITIONS = Rule(
    "max_seq_len_beyond_positions",
    "positions beyond the rotary range are untrained or unreadable",
    "lower engine.max_seq_len",
    ("NVIDIA/TensorRT-LLM#19320",),
)
WINDOW_TOO_SMALL = Rule(
    "window_too_small",
    "the max_draft_len + 1 columns that one step writes must be distinct",
    "lower max_draft_len, or use the checkpoint's window",
)
MAX_NUM_TOKENS_TOO_SMALL = Rule(
    "max_num_tokens_too_small",
    "a full batch of generation rows must fit into one forward",
    "raise engine.max_num_tokens to max_num_requests * (max_draft_len + 1), or lower one of those",
)
GRAPH_SIZES_NOT_INCREASING = Rule(
    "graph_sizes_not_increasing",
    "the smallest fitting bucket is picked in order",
    "sort the sizes and drop repeats",
)
GRAPH_SIZE_OUT_OF_RANGE = Rule(
    "graph_size_out_of_range",
    "a graph bucket narrows max_num_requests and never widens it",
    "use sizes from 1 to max_num_requests",
    (_SLOT_POOL,),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.name: rule for rule in list(globals().values()) if isinstance(rule, Rule)}
)
