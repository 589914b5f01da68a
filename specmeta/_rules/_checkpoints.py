"""Rules on published checkpoints: what their files state, and the tensors behind it."""

from ._rule import Rule

CHECKPOINT_NOT_RECOGNIZED = Rule(
    "checkpoint_not_recognized",
    "R13",
    "a file that is read as another layout gives a drafter that runs and is not accepted",
    "pass a DeepSpec, DeepSeek-V4, z-lab, speculators, MTP or GGUF drafter",
)
FACT_NOT_STATED = Rule(
    "fact_not_stated",
    "R7",
    "the same tensors fit two meanings, and a guess gives correct output with few accepted drafts",
    "state it: --state FACT=VALUE, `stated` in a deployment file, or stated={...} in Python",
    ("sgl-project/sglang-jax#1619",),
)
FACTS_DISAGREE = Rule(
    "facts_disagree",
    "R7",
    "of two values for one fact, the engine that reads the wrong one drafts with it",
    "keep the value that the checkpoint was trained with",
    (
        "PrismML-Eng/llama.cpp#122",
        "vllm-project/vllm#48639",
        "sgl-project/sglang#30982",
        "sgl-project/sglang#30852",
        "sgl-project/sglang#34734",
        "ggml-org/llama.cpp#26275",
        "vllm-project/vllm#54631",
        "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#208",
        "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#22",
        "vllm-project/vllm-ascend#13530",
    ),
)
KEY_MISSPELT = Rule(
    "key_misspelt",
    "R7",
    "a key that no reader knows is skipped, and its fact is taken from somewhere else",
    "correct the spelling",
)
VALUE_NOT_SUPPORTED = Rule(
    "value_not_supported",
    "R13",
    "a value that changes the computation and is not read would be ignored",
    "use a value that is read, or another checkpoint",
)
VALUE_NOT_READ = Rule(
    "value_not_read",
    "R13",
    "a value that changes the computation, and that no field holds, is left to the engine",
    "serve the checkpoint with an engine that reads the key",
    severity="warning",
)
MARKOV_START_NOT_STATED = Rule(
    "markov_start_not_stated",
    "R7",
    "a recurrent head whose first step is another one than in training adds other biases",
    "compare the loop of the engine over the block with the code that trained the checkpoint",
    severity="warning",
)
LAYER_IDS_LOOK_SHIFTED = Rule(
    "layer_ids_look_shifted",
    "R8",
    "ids that count layer inputs and are read as outputs capture a layer too late, or too early",
    "compare layer_id_convention with the code that trained the checkpoint",
    (
        "vllm-project/vllm#42704",
        "vllm-project/vllm#40727",
        "vllm-project/vllm#43671",
    ),
    severity="warning",
)
PROJECTION_WIDTH_DIFFERS = Rule(
    "projection_width_differs",
    "R8",
    "the projection reads one plane for each captured layer, in their order",
    "list every captured layer in the configuration, also one that is implied",
    (
        "NVIDIA/Model-Optimizer#2149",
        "vllm-project/speculators#705",
        "vllm-project/vllm#48152",
        "vllm-project/vllm#48124",
    ),
)
MARKOV_ROWS_DIFFER = Rule(
    "markov_rows_differ",
    "R9",
    "the Markov head looks up the token drafted before",
    "use the weights of this configuration",
)
D2T_LENGTH_DIFFERS = Rule(
    "d2t_length_differs",
    "R9",
    "the map from draft to target tokens has a row for every draft token",
    "use the map and the draft_vocab_size of one checkpoint",
    ("vllm-project/vllm#56443",),
)
D2T_TYPE_DIFFERS = Rule(
    "d2t_type_differs",
    "R9",
    "token ids in a type that rounds them lead to other tokens",
    "use the map that the checkpoint was published with, or convert it from there to int64",
)
DRAFT_HEAD_DIFFERS = Rule(
    "draft_head_differs",
    "R9",
    "a head with other rows than the draft vocabulary proposes tokens that it was not trained for",
    "use the drafter's own head: the target's fits only where draft_vocab_size is its vocab_size",
    ("vllm-project/vllm-ascend#11374",),
)
WEIGHTS_NOT_READ = Rule(
    "weights_not_read",
    "R13",
    "tensors that nothing compares with the configuration may be those of another one",
    "fetch the weights, or save them as model.safetensors or as shards with an index",
    severity="warning",
)
TENSOR_MISSING = Rule(
    "tensor_missing",
    "R10",
    "a layer without its weights would start from random ones",
    "fetch the checkpoint again, or use the configuration that belongs to it",
)
TENSOR_UNCLAIMED = Rule(
    "tensor_unclaimed",
    "R8",
    "a tensor that nothing reads is an operation that is not applied",
    "use a loader that knows it, or the configuration that belongs to the weights",
    ("charlie12345/ROCmFPX#44",),
)
TENSOR_SHAPE_DIFFERS = Rule(
    "tensor_shape_differs",
    "R10",
    "weights of other sizes belong to another configuration",
    "use the configuration and the weights of one checkpoint",
)
