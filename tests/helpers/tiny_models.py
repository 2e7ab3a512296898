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


def _tokenizer(kind: str, longest: int = LONGEST) -> Any:
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
        model_max_length=longest,
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


def _byte_tokenizer() -> Any:
    """A tokenizer whose tokens are bytes, so that one character may have several; the first space of a word is its."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {token: at for at, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=1024,
        model_input_names=["input_ids", "attention_mask", "token_type_ids"],
    )


UNSURE = "gold"
"""The word that the lookup classifier calls unsupported with a probability of 3/4 only."""


def _lookup_classifier(tokenizer: Any, labels: dict[int, str]) -> Callable[[Path], None]:
    """A BERT whose weights look each token of the second text up in the first: it is unsupported if it is not there.

    Token vectors are unit vectors. A token attends to equal tokens of the first text, and to [CLS] if there is none;
    what it gets from [CLS] makes it unsupported, with a probability of 0.99995.
    """

    def make(folder: Path) -> None:
        import numpy as np
        import torch
        import transformers

        made_tokenizer = tokenizer()
        words = len(made_tokenizer)
        first, second, mark, width = words, words + 1, words + 2, words + 3
        config = transformers.BertConfig(
            vocab_size=words,
            hidden_size=width,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=1,
            max_position_embeddings=1024,
            pad_token_id=made_tokenizer.pad_token_id,
            num_labels=2,
            id2label=labels,
        )
        model = transformers.BertForTokenClassification(config)
        norm = _norm(np.eye(1, width, 0)[0] + np.eye(1, width, first)[0])
        low, step = norm[1], norm[0] - norm[1]  # (x - low) / step is 1 where the vector of a token has its one
        sharpness = 60 * width**0.5
        with torch.no_grad():
            for name, values in model.named_parameters():
                values.fill_(1.0 if "LayerNorm.weight" in name else 0.0)
            embeddings, layer = model.bert.embeddings, model.bert.encoder.layer[0]
            embeddings.word_embeddings.weight[:, :words] = torch.eye(words)
            embeddings.token_type_embeddings.weight[0, first] = 1
            embeddings.token_type_embeddings.weight[1, second] = 1
            attention: Any = layer.attention.self
            for projection, scale in ((attention.query, sharpness), (attention.key, 1.0)):
                projection.weight[:words, :words] = torch.eye(words) * scale / step
                projection.bias[:words] = -low * scale / step
            attention.query.bias[first] = 1
            attention.key.weight[first, second] = -2 * sharpness / step  # not itself
            attention.key.weight[first, made_tokenizer.cls_token_id] = sharpness / 2 / step
            attention.key.bias[first] = low * 1.5 * sharpness / step
            attention.value.weight[mark, made_tokenizer.cls_token_id] = 1 / step
            attention.value.bias[mark] = -low / step
            layer.attention.output.dense.weight[mark, mark] = 10
            found, missing = (_norm(norm + np.eye(1, width, mark)[0] * weight) for weight in (0, 10))
            gap = float(missing[mark] - found[mark])
            model.classifier.weight[1, mark] = 20 / gap
            model.classifier.bias[1] = -10 - 20 * float(found[mark]) / gap
            unsure = made_tokenizer.get_vocab().get(UNSURE)
            if unsure is not None:
                less = (10 - np.log(3)) / (missing[0] - missing[1])
                model.classifier.weight[1, unsure] = -less
                model.classifier.bias[1] += less * missing[1]
        model.save_pretrained(folder)
        made_tokenizer.save_pretrained(folder)

    return make


def _norm(values: Any) -> Any:
    """A vector as a layer norm leaves it."""
    return (values - values.mean()) / values.std()


def _t5(model_class: str, seed: int) -> Callable[[Path], None]:
    """A T5 of a few hundred numbers, with the special tokens of its family."""

    def make(folder: Path) -> None:
        import torch
        import transformers
        from tokenizers import processors

        tokenizer = _tokenizer("roberta")
        tokenizer.eos_token = "</s>"
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tokenizer.eos_token_id)]
        )
        config = transformers.T5Config(
            vocab_size=len(tokenizer),
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=1,
            num_heads=2,
            initializer_factor=1.5,
            decoder_start_token_id=tokenizer.pad_token_id,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            num_labels=2,
        )
        generator_state = torch.random.get_rng_state()
        torch.manual_seed(seed)
        try:
            model = getattr(transformers, model_class)(config)
        finally:
            torch.random.set_rng_state(generator_state)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

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
    "spans": _lookup_classifier(lambda: _tokenizer("bert", 1024), {0: "supported", 1: "hallucinated"}),
    "spans-bytes": _lookup_classifier(_byte_tokenizer, {0: "LABEL_0", 1: "LABEL_1"}),
    "names": lambda folder: _save(
        "bert", "BertForTokenClassification", folder, 10, num_labels=3, id2label={0: "O", 1: "B-PER", 2: "I-PER"}
    ),
    "minicheck-t5": _t5("T5ForConditionalGeneration", 11),
    "minicheck-roberta": _classifier("roberta", 12, {0: "LABEL_0", 1: "LABEL_1"}),
    "hhem": _t5("T5ForTokenClassification", 13),
}
