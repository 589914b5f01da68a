"""The DeepSpec form: a drafter class named in `architectures`, its facts at the top level.

`Qwen3DSparkModel` and `Gemma4DSparkModel` count layer outputs (-1 is the embedding) and let a block
see itself whole. With a Markov or a confidence head they predict from the anchor slot; without both
they are DeepSpec's `dflash_*` checkpoints, whose anchor convention no key states. The drafters that
others trained in this form state their conventions, or are asked for them.
"""

from .._drafter import DrafterConfig, DSparkDrafterConfig
from ._facts import Facts
from ._layers import sizes, warn_of_rotation
from ._reading import Reading, block_fields, build, causality, dspark_fields, finish

ARCHITECTURES = ("Qwen3DSparkModel", "Gemma4DSparkModel")
OTHER_ARCHITECTURES = (
    "LingDSparkModel",
    "K3DSparkModel",
    "DSparkDraftModel",
    "Lfm2DSparkDraftModel",
)


def read(facts: Facts, architecture: str) -> Reading[DrafterConfig]:
    """The canonical form. Raises `CheckpointError` with every problem."""
    fields = sizes(facts)
    fields |= block_fields(facts, fields["hidden_size"])
    fields |= dspark_fields(facts)
    known = architecture in ARCHITECTURES
    has_head = fields["markov_rank"] not in (0, None) or fields["enable_confidence_head"] is True
    if known and has_head:
        fields["anchor_convention"] = facts.value("anchor_convention", "anchor_first")
    else:
        fields["anchor_convention"] = facts.required("anchor_convention")
    fixed = "non_causal" if known else None
    fields["window_causality"] = causality(facts, fields["sliding_window"], fixed)
    warn_of_rotation(facts)
    return finish(facts, build(facts, DSparkDrafterConfig, fields), "deepspec")
