"""Rules on the arguments of engines."""

from ._rule import Rule

METHOD_NOT_SUPPORTED = Rule(
    "method_not_supported",
    "R13",
    "another method keeps other state, so its drafts are rejected or its checkpoint misread",
    "name DSpark, DFlash or MTP, the method that the drafter was trained for",
    ("vllm-project/vllm-ascend#13665",),
)
DRAFT_TOKENS_DISAGREE = Rule(
    "draft_tokens_disagree",
    "R7",
    "engines count drafts (K), drafts with the anchor (K + 1) or a block: one of these arguments "
    "was taken for another",
    "give the one that counts in the engine's own way, or correct the others",
    ("NVIDIA/Model-Optimizer#2247",),
)
ARGUMENT_REQUIRED = Rule(
    "argument_required",
    "R13",
    "an engine's default depends on its version, its memory and the model, so nothing that is "
    "derived from it can be checked",
    "give the argument with the value that the engine runs with",
)
ARGUMENT_INVALID = Rule(
    "argument_invalid",
    "R13",
    "a value of another kind is refused by the engine at start, or read as something else",
    "write the value itself, as the engine's documentation has it",
)
ARGUMENT_MISSPELT = Rule(
    "argument_misspelt",
    "R13",
    "an engine that ignores an unknown key speculates with its default instead",
    "write the name that is meant",
)
ARGUMENTS_DISAGREE = Rule(
    "arguments_disagree",
    "R13",
    "of two spellings of one argument the engine takes one, and the other one is believed",
    "give it once",
)
ARGUMENT_NOT_SUPPORTED = Rule(
    "argument_not_supported",
    "R13",
    "metadata describes one chain of drafts for each row",
    "leave the argument out",
)
ARGUMENT_NOT_READ = Rule(
    "argument_not_read",
    "R13",
    "what an argument changes beyond the contracts is not checked",
    "leave it, if that is meant",
    severity="warning",
)
