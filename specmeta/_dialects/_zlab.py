"""The z-lab form: `DFlashDraftModel`, its facts at the top level or in a `dflash_config` object.

Its code counts layer outputs, lets a block see itself whole, and fills the position of each slot,
unless a key says otherwise. Mask token and layer ids have defaults there; here they are asked for.
"""

from .._drafter import DFlashDrafterConfig
from ._facts import Facts
from ._reading import Reading, block_fields, build, causality, finish, sizes

ARCHITECTURE = "DFlashDraftModel"


def read(facts: Facts) -> Reading:
    """The canonical form. Raises `CheckpointError` with every problem."""
    fields = sizes(facts)
    fields |= block_fields(facts, fields["hidden_size"])
    fields["anchor_convention"] = facts.value("anchor_convention", "mask_at_position")
    fields["window_causality"] = causality(facts, fields["sliding_window"], "non_causal")
    for key in ("selector_rank", "selector_top_k"):
        if facts.at((key,)) or facts.at(("dflash_config", key)):
            facts.unsupported(key, "is a candidate selector (DFlash2), which is not read")
    return finish(facts, build(facts, DFlashDrafterConfig, fields), "zlab")
