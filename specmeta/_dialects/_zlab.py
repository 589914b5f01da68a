"""The z-lab form: `DFlashDraftModel`, its facts at the top level or in a `dflash_config` object.

Its code counts layer outputs, lets a block see itself whole, and fills the position of each slot,
unless a key says otherwise. Mask token and layer ids have defaults there; here they are asked for.
"""

from .._drafter import DFlashDrafterConfig, DrafterConfig
from ._facts import Facts
from ._layers import sizes, warn_of_rotation
from ._reading import (
    DFLASH2,
    Reading,
    block_fields,
    build,
    causality,
    finish,
    refuse_dflash2,
    refuse_heads,
)

ARCHITECTURE = "DFlashDraftModel"


def read(facts: Facts) -> Reading[DrafterConfig]:
    """The canonical form. Raises `CheckpointError` with every problem."""
    fields = sizes(facts)
    fields |= block_fields(facts, fields["hidden_size"])
    fields["anchor_convention"] = facts.value("anchor_convention", "mask_at_position")
    fields["window_causality"] = causality(facts, fields["sliding_window"], "non_causal")
    refuse_heads(facts)
    refuse_dflash2(facts, (path for key in DFLASH2 for path in ((key,), ("dflash_config", key))))
    warn_of_rotation(facts)
    return finish(facts, build(facts, DFlashDrafterConfig, fields), "zlab")
