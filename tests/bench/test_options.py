"""What an accept-length run refuses, before it serves anything."""

from typing import Any

import pytest

from specmeta_workers import Pair, load_bundled
from specmeta_workers.bench import AcceptLengthOptions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draft_lens": (1, 0)}, r"draft_lens\[1\]: 0 is not an int of at least 1"),
        ({"draft_lens": ()}, "draft_lens: empty"),
        ({"batches": (4, 4)}, "batches: .* repeats"),
        ({"modes": ("both",)}, r"modes\[0\]: 'both' is none of aggregated, disaggregated"),
        ({"decoding_types": ("EAGLE",)}, r"decoding_types\[0\]: 'EAGLE' is none of DSpark"),
        ({"decoding_types": ()}, "decoding_types: .* give each once, and at least one"),
        ({"requests": 0}, "requests: 0 is not"),
        ({"fault": "no-such"}, "fault: 'no-such' is unknown"),
        ({"graph_batch_sizes": (3, 2)}, r"graph_batch_sizes\[1\]: 2; give sizes"),
        ({"graph_batch_sizes": (8, 32)}, r"graph_batch_sizes\[1\]: 32 is above every batch size"),
        ({"temperature": -1.0}, "temperature: -1"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p: 0"),
        ({"top_k": 5}, "top_k: 5 without a temperature"),
        ({"top_p": 0.5}, "top_p: 0.5 without a temperature"),
        ({"confidence_threshold": 0.5}, r"decoding_types\[1\]: DFlash has no confidence head"),
    ],
)
def test_options_that_cannot_run_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AcceptLengthOptions(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"requests": 10_000}, "requests: 10000 is above the number of prompts, 128"),
        ({"draft_lens": (3, 8)}, r"draft_lens\[1\]: 8 is above the 7 drafts of the DSpark"),
        ({"new_tokens": 1}, "new_tokens: 1 is the prefill's token alone"),
        ({"new_tokens": 5000}, "new_tokens: 5000 behind a prompt of"),
        ({"decoding_types": ("MTP", "DSpark")}, "decoding_types: MTP, DSpark, but the pairs are"),
    ],
)
def test_options_that_the_pairs_cannot_serve_are_refused(
    pairs: tuple[Pair, ...], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        AcceptLengthOptions(**change).check(pairs)


def test_pairs_of_several_targets_are_refused(pairs: tuple[Pair, ...]) -> None:
    other = load_bundled("DFlash")
    with pytest.raises(ValueError, match="their targets are several objects"):
        AcceptLengthOptions().check([pairs[0], other, pairs[2]])


def test_mtp_drafts_any_length(pairs: tuple[Pair, ...]) -> None:
    AcceptLengthOptions(decoding_types=("MTP",), draft_lens=(11,)).check(pairs[2:])
