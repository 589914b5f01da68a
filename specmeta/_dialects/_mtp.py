"""Multi-token prediction: layers in the target's own file, and this project's separate layout.

A target counts its layers under `num_nextn_predict_layers` (DeepSeek-V3, GLM) or
`mtp_num_hidden_layers` (Qwen3.5), and they have the sizes of its own layers. Which of its states
they read is in no published key, so it is asked for. `Qwen3MTPModel`, the layout of the bundled
drafter, is a file of its own that says it.
"""

from .. import _rules as rules
from .._drafter import DrafterConfig, MTPDrafterConfig
from .._findings import Path
from ._facts import Facts
from ._layers import sizes
from ._reading import Reading, build, finish

ARCHITECTURE = "Qwen3MTPModel"


def read_own(facts: Facts) -> Reading[DrafterConfig]:
    """The canonical form of a separate MTP drafter. Raises `CheckpointError`."""
    fields = sizes(facts, layers="num_nextn_predict_layers")
    causality = facts.get("window_causality")
    if causality is not None and not causality.stated and causality.value != "causal":
        told = "a layer that drafts token by token is causal"
        facts.add(rules.VALUE_NOT_SUPPORTED, causality, told)
    fields["target_hidden_state"] = facts.required("target_hidden_state")
    return finish(facts, build(facts, MTPDrafterConfig, fields), "specmeta")


def read_bundled(facts: Facts, section: Path) -> Reading[DrafterConfig]:
    """The canonical form of the MTP layers in a target's file. Raises `CheckpointError`."""
    fields = sizes(facts, section, mixed=True)
    fields["num_layers"] = facts.required("num_mtp_layers")
    facts.is_from("num_mtp_layers", "num_layers")
    rank, rotary = facts.at((*section, "kv_lora_rank")), facts.at((*section, "qk_rope_head_dim"))
    if rank is not None:  # a layer caches one latent vector and its rotary part
        fields["attention_kind"] = "latent"
        together = rank + rotary if type(rank) is int and type(rotary) is int else None
        fields |= {"num_key_value_heads": None, "head_dim": together}
    elif facts.at((*section, "model_type")) == "deepseek_v4":  # head_dim has both parts
        fields |= {"attention_kind": "latent", "num_key_value_heads": None}
    fields["target_hidden_state"] = facts.required("target_hidden_state")
    return finish(facts, build(facts, MTPDrafterConfig, fields), "mtp")
