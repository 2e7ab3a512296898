"""Models small enough for tests, the same bits wherever they are made: weights from a seed, name by name.

Used by the tests and by ``record_bertscore.py``, which runs in another environment: nothing but numpy, torch and
transformers, and nothing that differs between their versions.
"""

from __future__ import annotations

import json
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

MERGES = ["Ġ t", "h e", "Ġt he", "Ġ a", "i n", "o n", "e r", "Ġ c", "a t", "Ġc at"]
SPECIALS = {
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    "deberta": ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],
}


def byte_characters() -> list[str]:
    """The printable stand-ins that byte-level tokenizers give to the 256 bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    return [chr(byte) if byte in kept else chr(256 + others.index(byte)) for byte in range(256)]


def make(kind: str, folder: Path) -> Path:
    """A tiny RoBERTa or DeBERTa with its tokenizer, saved under the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    specials = SPECIALS[kind]
    words = [*specials, *byte_characters(), *("".join(merge.split()) for merge in MERGES)]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n")
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    tokens: dict[str, Any] = dict(zip(names, specials, strict=True))
    tokens |= {"bos_token": specials[0], "eos_token": specials[2], "model_max_length": 48}
    tokens["tokenizer_class"] = {"roberta": "RobertaTokenizer", "deberta": "DebertaTokenizer"}[kind]
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    with warnings.catch_warnings():  # packages that import deprecated parts of each other
        warnings.simplefilter("ignore")
        _model(kind, len(words)).save_pretrained(folder)
    return folder


def _model(kind: str, words: int) -> Any:
    from transformers import DebertaConfig, DebertaModel, RobertaConfig, RobertaModel

    common: dict[str, Any] = {
        "vocab_size": words,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "pad_token_id": 1,
    }
    if kind == "roberta":
        model: Any = RobertaModel(
            RobertaConfig(**common, max_position_embeddings=50, type_vocab_size=1, layer_norm_eps=1e-5)
        )
    else:
        relative = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
        model = DebertaModel(DebertaConfig(**common, max_position_embeddings=48, type_vocab_size=0, **relative))
    return _seeded(model)


def _seeded(model: Any) -> Any:
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            numbers = np.random.default_rng(zlib.crc32(name.encode())).normal(0, 0.15, tuple(parameter.shape))
            if "norm" in name.lower() and name.endswith("weight"):
                numbers = 1 + 0.1 * numbers
            parameter.copy_(torch.from_numpy(numbers).to(parameter.dtype))
    return model.eval()
