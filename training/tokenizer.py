"""Train the byte-level BPE vocabulary of the bundled pair on the training split.

python training/tokenizer.py --cache training/cache
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 512
END_OF_TEXT = "<|endoftext|>"
MASK = "<|mask|>"


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Return a byte-level BPE of `VOCAB_SIZE` tokens; ids 0 and 1 are end-of-text and mask."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT, MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def main() -> None:
    """Train on the corpus in the cache and save `tokenizer.json` beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("training/cache"))
    cache = parser.parse_args().cache
    corpus = json.loads((cache / "corpus.json").read_text())
    tokenizer = train_tokenizer(corpus["train"])
    tokenizer.save(str(cache / "tokenizer.json"))
    tokens = sum(len(e.ids) for e in tokenizer.encode_batch(corpus["validation"]))
    characters = sum(map(len, corpus["validation"]))
    print(f"{tokenizer.get_vocab_size()} tokens, {characters / tokens:.2f} characters a token")


if __name__ == "__main__":
    main()
