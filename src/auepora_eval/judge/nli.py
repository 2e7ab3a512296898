"""NLI functions and models that take the place of a judge: the probability that evidence supports a statement."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Annotated, Any, Literal, Self

import numpy as np

from ..core.conventions import function_name
from ..errors import BadValueError, JudgeError
from ..features.embeddings import Floats, InferenceFailure
from ..models.embedders import Pair, PairModel, entailment_index
from ..models.encoding import TokenisedTexts, count_tokens, split_by_tokens, tokenise
from ..models.loading import (
    LoadedModel,
    build_with_options,
    given_options,
    load_classifier,
    load_text_to_text,
    load_token_classifier,
    model_type,
)
from ..options import Gt, Le, check_options
from ..runtime.processes import DaemonThreadPool
from ..text.sentences import sentence_spans
from .critic import as_judge_error, check_number

# A batch scores all its samples at once: without a limit there would be a thread for each.
_FUNCTION_POOL = DaemonThreadPool(16)
_MODEL_POOL = DaemonThreadPool(1)
"""One thread: a single model call already uses the whole machine."""


@dataclass(frozen=True, slots=True)
class EntailmentScore:
    """The probability that the evidence entails a statement."""

    probability: float
    cut: bool = False
    """Whether the texts were truncated to the model's input length."""


Threshold = Annotated[float, Gt(0), Le(1)]
"""From this probability on the evidence entails a statement."""


@dataclass(frozen=True)
class EntailmentFunction:
    """An NLI function ``(premise, hypothesis) -> float | bool``, plain or async, and its decision threshold.

    The premise is all evidence as one string. The function may be called from several threads at once. An exception is
    a failed measurement, and so is a number outside [0, 1].
    """

    function: Callable[[str, str], Any]
    threshold: Threshold = 0.5

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def identity(self) -> str:
        """Shown in signatures: the function, and the threshold if it is not 0.5."""
        name = function_name(self.function).replace("|", "/")
        return name if self.threshold == 0.5 else f"{name} from {self.threshold:g}"

    async def score(self, evidence: Sequence[str], statements: Sequence[str]) -> list[EntailmentScore]:
        """The score of each statement, with all evidence as one premise."""
        premise = "\n".join(evidence)
        if inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 -- an object whose call is async
        ):
            return [_check_probability(await self._call_async(premise, statement)) for statement in statements]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            _FUNCTION_POOL, lambda: [self._call(premise, statement) for statement in statements]
        )
        return list(map(_check_probability, found))

    async def _call_async(self, premise: str, statement: str) -> Any:
        try:
            return await self.function(premise, statement)
        except (Exception, SystemExit) as error:
            raise as_judge_error(error) from error

    def _call(self, premise: str, statement: str) -> Any:
        try:
            return self.function(premise, statement)
        except (Exception, SystemExit) as error:  # a SystemExit here would stop the event loop
            raise as_judge_error(error) from error


def _check_probability(value: Any) -> EntailmentScore:
    """The result of an NLI function, checked to be a probability."""
    number = float(value) if isinstance(value, bool) else value
    return EntailmentScore(check_number(number, 0.0, 1.0, "the function of entailment gave"))


def select_premises(texts: Sequence[str], evidence: Literal["joined", "each"]) -> list[str]:
    """The premises of a statement: all texts as one, or each distinct text."""
    return ["\n".join(texts)] if evidence == "joined" and texts else list(dict.fromkeys(texts))


def label_probability(logits: Floats, index: int) -> float:
    """The softmax probability of one label."""
    weights = np.exp(logits - logits.max())
    return float(weights[index] / weights.sum())


@dataclass(frozen=True)
class NliModel(PairModel):
    """An NLI model, by the path of its folder or its hub name; nothing is downloaded unless allowed.

    With ``evidence="joined"`` all evidence is one premise, which may exceed the model's input length; with ``each`` a
    statement gets the highest score over the evidence texts. A plan writes ``{nli: PATH}``, or
    ``{nli: {model: PATH, threshold: 0.7}}``.
    """

    kind = "nli"
    """The key under which a plan describes it."""
    threshold: Threshold = field(default=0.5, kw_only=True)
    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    entailment_label: str | None = field(default=None, kw_only=True)

    @classmethod
    def parse(cls, options: object) -> Self:
        """The model that a plan describes under its ``kind``, by its path or its options."""
        is_path = isinstance(options, (str, os.PathLike))
        return build_with_options(cls, cls.kind, {"model": options} if is_path else options)

    @property
    def identity(self) -> str:
        """Shown in signatures: the model and the options that are not defaults."""
        parts = [self.kind, super().identity]
        parts += [] if self.threshold == 0.5 else [f"from {self.threshold:g}"]
        parts += [] if self.evidence == "joined" else [self.evidence]
        parts += [] if self.entailment_label is None else [f"label={self.entailment_label}"]
        return " ".join(parts).replace("|", "/")

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        given = given_options(self)
        return {self.kind: self.model if set(given) == {"model"} else given}

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available and it has a label for support."""
        self.support_index(self.loaded())

    def support_index(self, loaded: LoadedModel) -> int:
        """Index of the label that means support: entailment."""
        return entailment_index(loaded, self.entailment_label)

    def split_premise(self, loaded: LoadedModel, premise: str) -> list[str]:
        """The parts of a premise that are read one by one; the best one counts."""
        return [premise]

    async def score(self, evidence: Sequence[str], statements: Sequence[str]) -> list[EntailmentScore]:
        """The score of each statement."""
        premises = select_premises(evidence, self.evidence)
        return await asyncio.get_running_loop().run_in_executor(_MODEL_POOL, self._score, premises, statements)

    def _score(self, premises: Sequence[str], statements: Sequence[str]) -> list[EntailmentScore]:
        loaded = self.loaded()
        label_index = self.support_index(loaded)
        parts = list(chain.from_iterable(self.split_premise(loaded, premise) for premise in premises))
        pairs = [(part, statement) for statement, part in product(statements, parts)]
        logits = self.logits(pairs)
        probabilities, cut = [], []
        for logit in logits:
            if isinstance(logit, InferenceFailure):
                raise JudgeError(logit.reason, logit.message)
            probabilities.append(label_probability(logit[0], label_index))
            cut.append(logit[1])
        if any(map(math.isnan, probabilities)):
            raise JudgeError("not_a_number", f"the model {self.model} gave no number for a pair of texts")
        width = len(parts)
        return [
            EntailmentScore(max(probabilities[start : start + width]), any(cut[start : start + width]))
            for start in range(0, len(pairs), width)
        ]


# --- families of detectors that read evidence and statement as one text ----------------------------------------------


@dataclass(frozen=True)
class OneTextModel(NliModel):
    """A model that reads evidence and statement arranged in one text, and has two labels: unsupported, supported."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.entailment_label is not None:
            raise BadValueError(f"{self.kind} models have fixed labels; leave entailment_label out")

    def arrange(self, loaded: LoadedModel, premise: str, statement: str) -> str:
        """The text that the model reads."""
        raise NotImplementedError

    def support_index(self, loaded: LoadedModel) -> int:
        """The second label."""
        return 1

    def encode(self, loaded: LoadedModel, pairs: Sequence[Pair]) -> TokenisedTexts:
        """The tokens of each text. Of one that is too long, the evidence is truncated and never the statement."""
        special = re.compile("|".join(map(re.escape, loaded.tokenizer.all_special_tokens)))
        # A special token that is written in a text would be read as the end of it.
        plain = [(special.sub(" ", premise), special.sub(" ", statement)) for premise, statement in pairs]
        counts = count_tokens(loaded, list(chain.from_iterable(plain)))
        (frame,) = tokenise(loaded, [self.arrange(loaded, "", "")]).lengths
        texts, cut = [], []
        for (premise, statement), *sizes in zip(plain, counts[::2], counts[1::2], strict=True):
            room = loaded.max_length - frame - sizes[1] - _SPARE_TOKENS
            cut.append(sizes[0] > room)
            end = len(premise) if not cut[-1] else split_by_tokens(loaded, premise, room)[0][1] if room > 0 else 0
            texts.append(self.arrange(loaded, premise[:end], statement))
        found = tokenise(loaded, texts)
        return replace(found, cut=[was_cut or other for was_cut, other in zip(cut, found.cut, strict=True)])


_SPARE_TOKENS = 4
"""Spare tokens: texts that are joined may have more tokens than apart."""


@dataclass(frozen=True)
class MiniCheckModel(OneTextModel):
    """A model of MiniCheck (Tang et al. 2024): Flan-T5, RoBERTa or DeBERTa, by the path of its folder or its hub name.

    As in the reference, evidence is split at sentences into chunks of 500 words (T5) or 400 tokens, and the chunk with
    the highest probability counts. A plan writes ``{minicheck: PATH}``.
    """

    kind = "minicheck"

    def loaded(self) -> LoadedModel:
        """The model in memory; T5 and DeBERTa have no limit of positions, and read 2048 tokens as in the reference."""
        load = load_text_to_text if model_type(self) == "t5" else load_classifier
        loaded = load(self, purpose="checking statements with MiniCheck")
        config = loaded.model.config
        if config.vocab_size <= max(_T5_LABELS) if _is_t5(loaded) else config.num_labels != 2:
            raise BadValueError(f"the model {self.model} is not one of MiniCheck: it has no labels for support")
        return replace(loaded, max_length=2048) if config.model_type in ("t5", "deberta-v2") else loaded

    def arrange(self, loaded: LoadedModel, premise: str, statement: str) -> str:
        """Evidence and statement, with the token for the end of a text between them."""
        end = loaded.tokenizer.eos_token or loaded.tokenizer.sep_token
        return f"{'predict: ' if _is_t5(loaded) else ''}{premise}{end}{statement}"

    def forward(self, loaded: LoadedModel, inputs: Mapping[str, Any]) -> Any:
        """The logits of the labels; those of T5 are two tokens of the first word it writes."""
        if not _is_t5(loaded):
            return super().forward(loaded, inputs)
        start = inputs["input_ids"].new_full((len(inputs["input_ids"]), 1), loaded.model.config.decoder_start_token_id)
        return loaded.model(**inputs, decoder_input_ids=start).logits[:, 0, list(_T5_LABELS)]

    def split_premise(self, loaded: LoadedModel, premise: str) -> list[str]:
        """Chunks of whole sentences."""
        spans = sentence_spans(premise)
        sentences = [premise[start:end] for start, end in spans]
        sizes = [len(sentence.split()) for sentence in sentences] if _is_t5(loaded) else count_tokens(loaded, sentences)
        chunks: list[tuple[int, int]] = []
        used, limit = 0, 500 if _is_t5(loaded) else 400
        for (start, end), size in zip(spans, sizes, strict=True):
            if chunks and used + size <= limit:
                chunks[-1], used = (chunks[-1][0], end), used + size
            else:
                chunks.append((start, end))
                used = size
        return [premise[start:end] for start, end in chunks] or [premise]


def _is_t5(loaded: LoadedModel) -> bool:
    return bool(loaded.model.config.model_type == "t5")


_T5_LABELS = (3, 209)
"""Ids of the tokens that MiniCheck's T5 writes for unsupported and supported."""


@dataclass(frozen=True)
class HhemModel(OneTextModel):
    """HHEM-2.1-Open of Vectara, converted once to a token classifier of T5, which needs no code of its repository.

    The logits of the first token are those of the text. A plan writes ``{hhem: PATH}``.
    """

    kind = "hhem"

    def loaded(self) -> LoadedModel:
        """The model in memory; T5 has no limit of positions."""
        if model_type(self) == "HHEMv2":
            raise BadValueError(
                f"the folder {self.model} holds the repository of HHEM, which needs code of its own to be loaded; "
                "convert it once, as docs/judging/detectors.md shows, and give the path of the result"
            )
        loaded = load_token_classifier(self, purpose="checking statements with HHEM")
        if (count := loaded.model.config.num_labels) != 2:
            raise BadValueError(f"the model {self.model} is not HHEM: it has {count} labels, not 2")
        return replace(loaded, max_length=8192)

    def arrange(self, loaded: LoadedModel, premise: str, statement: str) -> str:
        """The prompt on which the model was trained."""
        return (
            "<pad> Determine if the hypothesis is true given the premise?\n\n"
            f"Premise: {premise}\n\nHypothesis: {statement}"
        )

    def forward(self, loaded: LoadedModel, inputs: Mapping[str, Any]) -> Any:
        """The logits of the first token."""
        return loaded.model(**inputs).logits[:, 0]


NLI_KINDS: dict[str, type[NliModel]] = {kind.kind: kind for kind in (NliModel, MiniCheckModel, HhemModel)}
"""Kinds of models that a plan can name."""
