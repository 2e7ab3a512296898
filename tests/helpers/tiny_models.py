"""Models of a few hundred numbers, made from fixed seeds: real parts without real weights.

Each is made on first use in a folder of its own below the system's temporary folder, named by what makes it, so that
all tests, and the processes they start, share one. Whoever comes second finds it complete: it is moved into place.
"""

import hashlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from auepora_eval.models.loading import quiet_loading
from helpers.requirements import check_marked_slow, need

WORDS = [
    "the",
    "a",
    "of",
    "in",
    "is",
    "was",
    "it",
    "and",
    "to",
    "cat",
    "cats",
    "dog",
    "sat",
    "mat",
    "on",
    "running",
    "paris",
    "london",
    "tower",
    "eiffel",
    "built",
    "made",
    "by",
    "who",
    "when",
    "where",
    "what",
    "not",
    "no",
    "never",
    "all",
    "some",
    "rain",
    "falls",
    "every",
    "day",
    "water",
    "is",
    "wet",
    "gold",
    "silver",
    "blue",
    "green",
    "red",
    "one",
    "two",
    "three",
    "four",
    "five",
    "nothing",
]
LONGEST = 96
"""How many tokens the models read."""

SEED = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
FOLDER = Path(tempfile.gettempdir()) / f"auepora-tiny-models-{os.getuid() if hasattr(os, 'getuid') else 0}-{SEED}"


def model_path(name: str) -> str:
    """Where a model is, or will be when it is asked for with ``made``."""
    return str(FOLDER / name)


def made(name: str) -> str:
    """The path of a model, made if need be."""
    check_marked_slow("a model")
    need("sentence_transformers")
    place = FOLDER / name
    if not place.exists():
        FOLDER.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=FOLDER))
        with quiet_loading():
            MAKERS[name](draft)
        try:
            draft.rename(place)
        except OSError:  # somebody else was faster
            shutil.rmtree(draft)
    return str(place)


def _tokenizer(kind: str) -> Any:
    """A tokenizer that knows some words and every ASCII character, with the special tokens of a family of models."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>"] if kind == "roberta" else ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    start, pad, end, unknown = special if kind == "roberta" else (special[2], special[0], special[3], special[1])
    pieces = [chr(code) for code in range(33, 127)]
    vocabulary = {
        word: at for at, word in enumerate(dict.fromkeys([*special, *WORDS, *pieces, *(f"##{p}" for p in pieces)]))
    }
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    middle = f"{end} {end}" if kind == "roberta" else end
    second = "0" if kind == "roberta" else "1"
    inner.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {middle} $B:{second} {end}:{second}",
        special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])],
    )
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=inner,
        pad_token=pad,
        unk_token=unknown,
        cls_token=start,
        sep_token=end,
        model_max_length=LONGEST,
        model_input_names=["input_ids", "attention_mask"] + ([] if kind == "roberta" else ["token_type_ids"]),
    )


def _config(kind: str, tokenizer: Any, **more: Any) -> Any:
    import transformers

    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": LONGEST + (2 if kind == "roberta" else 0),
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.5,  # large enough that texts differ
        **more,
    }
    if kind == "roberta":
        return transformers.RobertaConfig(type_vocab_size=1, **shape)
    if kind == "deberta":
        return transformers.DebertaV2Config(
            relative_attention=True,
            position_biased_input=False,
            pos_att_type=["p2c", "c2p"],
            type_vocab_size=0,
            **shape,
        )
    return transformers.BertConfig(**shape)


def _save(kind: str, model_class: str, folder: Path, seed: int, **config: Any) -> None:
    import torch
    import transformers

    tokenizer = _tokenizer(kind)
    generator_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    try:
        model = getattr(transformers, model_class)(_config(kind, tokenizer, **config))
    finally:
        torch.random.set_rng_state(generator_state)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _sbert(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    models: Any = importlib.import_module("sentence_transformers.models")
    inside = folder / "transformer"
    _save("bert", "BertModel", inside, 1)
    first = models.Transformer(str(inside), max_seq_length=LONGEST)
    SentenceTransformer(modules=[first, models.Pooling(16, "mean")], device="cpu").save(str(folder))
    shutil.rmtree(inside)


def _classifier(kind: str, seed: int, labels: dict[int, str], **config: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        family = {"bert": "Bert", "roberta": "Roberta", "deberta": "DebertaV2"}[kind]
        _save(
            kind, f"{family}ForSequenceClassification", folder, seed, num_labels=len(labels), id2label=labels, **config
        )

    return make


NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}
MAKERS: dict[str, Callable[[Path], None]] = {
    "sbert": _sbert,
    "cross-encoder": _classifier("bert", 2, {0: "LABEL_0"}),
    "cross-encoder-identity": _classifier(
        "bert", 2, {0: "LABEL_0"}, sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}
    ),
    "cross-encoder-odd": _classifier(
        "bert", 2, {0: "LABEL_0"}, sentence_transformers={"activation_fn": "torch.nn.modules.activation.GELU"}
    ),
    "cross-encoder-roberta": _classifier("roberta", 3, {0: "LABEL_0"}),
    "nli": _classifier("bert", 4, NLI),
    "nli-roberta": _classifier("roberta", 5, {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}),
    "nli-deberta": _classifier("deberta", 6, {0: "entailment", 1: "not_entailment"}),
    "nli-unnamed": _classifier("bert", 4, {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}),
    "bert": lambda folder: _save("bert", "BertModel", folder, 7),
    "roberta": lambda folder: _save("roberta", "RobertaModel", folder, 8),
    "deberta": lambda folder: _save("deberta", "DebertaV2Model", folder, 9),
}
