"""What a configuration must state before a draft model can be built of it."""

from __future__ import annotations

from typing import Any

import pytest

from specmeta.testing import make_deployment
from specmeta_workers._dense import DenseShape, dense_shape
from specmeta_workers._methods import METHODS
from tests.workers.worker_cases import KINDS

SIZES = {
    "num_attention_heads": None,
    "num_key_value_heads": None,
    "head_dim": None,
    "intermediate_size": None,
    "rms_norm_eps": None,
    "rope_theta": None,
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_every_size_comes_from_the_configuration(kind: Any) -> None:
    drafter = make_deployment(kind, head_dim=12, rope_theta=5e5).drafter
    assert dense_shape(drafter) == DenseShape(
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        intermediate_size=128,
        rms_norm_eps=1e-6,
        rope_theta=5e5,
    )


@kinds
def test_all_sizes_that_are_not_stated_are_named_at_once(kind: Any) -> None:
    drafter = make_deployment(kind, **SIZES).drafter
    with pytest.raises(ValueError, match=rf"^{', '.join(SIZES)}: not stated by the .*; add"):
        METHODS[drafter.decoding_type].draft_model(drafter)  # type: ignore[arg-type]


@kinds
@pytest.mark.parametrize("name", SIZES)
def test_one_size_that_is_not_stated_is_named(kind: Any, name: str) -> None:
    drafter = make_deployment(kind, **{name: None}).drafter
    with pytest.raises(ValueError, match=rf"^{name}: not stated by the checkpoint, "):
        METHODS[drafter.decoding_type].draft_model(drafter)  # type: ignore[arg-type]


@kinds
def test_latent_attention_is_refused(kind: Any) -> None:
    drafter = make_deployment(kind, attention_kind="latent", num_key_value_heads=None).drafter
    with pytest.raises(ValueError, match=r"^attention_kind: latent is not implemented; the draft"):
        METHODS[drafter.decoding_type].draft_model(drafter)  # type: ignore[arg-type]


@kinds
def test_a_draft_vocabulary_of_its_own_is_refused(kind: Any) -> None:
    drafter = make_deployment(kind, draft_vocab_size=100).drafter
    message = r"^draft_vocab_size: 100 is not vocab_size \(256\), and no map from draft"
    with pytest.raises(ValueError, match=message):
        METHODS[drafter.decoding_type].draft_model(drafter)  # type: ignore[arg-type]
