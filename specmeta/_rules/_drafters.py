"""Rules on a drafter and the layers that it captures."""

from ._rule import Rule

LAYERS_NOT_INCREASING = Rule(
    "layers_not_increasing",
    "R8",
    "captured states are concatenated in layer order, and each layer once",
    "sort the ids and drop repeats, in the checkpoint's own layer-id convention",
)
LAYER_OUT_OF_RANGE = Rule(
    "layer_out_of_range",
    "R8",
    "a layer that the target does not have is never captured",
    "check layer_id_convention: outputs are -1 ... num_layers - 1, inputs 0 ... num_layers",
    (
        "vllm-project/vllm#40727",
        "charlie12345/ROCmFPX#44",
    ),
)
MASK_TOKEN_OUT_OF_RANGE = Rule(
    "mask_token_out_of_range",
    "R9",
    "the mask token is looked up in the embedding",
    "use the checkpoint's mask_token_id: the bound is the embedding, not the tokenizer",
    ("ggml-org/llama.cpp#26761",),
)
BLOCK_SIZE_OUT_OF_RANGE = Rule(
    "block_size_out_of_range",
    "R7",
    "a block has its anchor at least, and the longest draft with its anchor at most",
    "use the checkpoint's block_size",
)
HEADS_NOT_DIVISIBLE = Rule(
    "heads_not_divisible",
    "R10",
    "each key/value head serves the same number of query heads",
    "read both from the checkpoint's config.json",
)
HEAD_DIM_ODD = Rule(
    "head_dim_odd",
    "R10",
    "rotary positions turn pairs of channels",
    "read head_dim from the checkpoint's config.json",
)
MARKOV_HEAD_INCONSISTENT = Rule(
    "markov_head_inconsistent",
    "R9",
    "markov_head_type has a meaning exactly where markov_rank is above 0",
    "give both, or markov_rank=0 and markov_head_type=None for a drafter without that head",
)
CONFIDENCE_HEAD_INCONSISTENT = Rule(
    "confidence_head_inconsistent",
    "R9",
    "the confidence head can read the Markov embedding only where both exist",
    "set confidence_head_with_markov=False, or enable both heads",
)
DRAFT_VOCAB_SIZE_TOO_LARGE = Rule(
    "draft_vocab_size_too_large",
    "R9",
    "the head's rows are a part of the vocabulary, mapped to it where they are fewer",
    "use the checkpoint's draft_vocab_size, at most vocab_size",
    ("vllm-project/vllm#56443",),
)
