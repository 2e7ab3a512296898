"""BLEU and chrF: n-gram overlap of answers and references; equal to sacrebleu."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest
from typing import Literal, Self

import numpy as np

from ..core.batch import Batch
from ..core.conventions import Signature, SignatureOption, signature_number
from ..core.derivation import (
    add_outcome,
    add_result,
    add_step,
    add_table,
    format_number,
    is_recording,
    quote_text,
)
from ..core.metrics_base import declare, with_option
from ..core.reduce import Mean, SumsReducer
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, MissingDependencyError
from ..features.texts import (
    Integers,
    best_pairs,
    reference_texts,
    select_pairs,
    shared_ngram_orders,
    shared_with_references,
    token_ids,
    token_pairs,
)
from ..options import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from ..runtime.imports import IMPORT_PATH
from ..text.ngrams import ngram_counts
from ..text.scripts import bleu_tokenization
from ..text.tokenizers import CharacterTokenizer, Tokenizer, bleu_tokenizer, chrf_tokenizer, custom_tokenizer
from .answer_base import Floats, ReferencedMetric, named_tokenizer
from .overlap import ngrams, tokenize_answer

Smooth = Literal["exp", "floor", "add-k", "none"]
SMOOTH_VALUES = {"exp": 0.0, "floor": 0.1, "add-k": 1.0, "none": 0.0}
"""The default value of each smoothing method; 0 for methods without a value."""
_LOG_OF_NOTHING = -9999999999.0
"""The logarithm of 0 in sacrebleu."""


def bleu_counts(given: Sequence[str], references: Sequence[Sequence[str]], max_order: int) -> list[int]:
    """The counts of one answer that BLEU sums: length, length of the closest reference, matches and n-grams by order.

    An n-gram matches at most as often as it occurs in the reference that has it most often. Of two references equally
    close in length, the shorter counts.
    """
    closest = min((abs(len(words) - len(given)), len(words)) for words in references)[1]
    matches, totals = [], []
    for n in range(1, max_order + 1):
        have, most = Counter(ngrams(given, n)), Counter[tuple[str, ...]]()
        for words in references:
            most |= Counter(ngrams(words, n))
        matches.append((have & most).total())
        totals.append(have.total())
    return [len(given), closest, *matches, *totals]


def bleu_of_counts(
    counts: Sequence[float], *, smooth_method: Smooth = "exp", smooth_value: float = 0.0, effective_order: bool = False
) -> float:
    """BLEU from the counts of one answer or the sums over many, from 0 to 100.

    The geometric mean of the n-gram precisions, times exp(1 - reference length / length) if the answers are shorter
    than the references. ``effective_order`` leaves out the orders for which a text is too short, as is usual for one
    sentence.
    """
    if not any(counts[2 : 2 + (len(counts) - 2) // 2]):
        return add_outcome("No n-gram of the answer stands in a reference", 0.0)
    precisions = bleu_precisions(
        counts, smooth_method=smooth_method, smooth_value=smooth_value, effective_order=effective_order
    )
    penalty = bleu_penalty(counts)
    value = penalty * math.exp(sum(map(_log, precisions)) / len(precisions))
    if is_recording():
        orders = (len(counts) - 2) // 2
        add_step(f"The reference closest in length has {counts[1]} tokens", counts[1])
        add_table(
            "N-grams of the answer that stand in a reference, by order; p is in percent, smoothed where nothing "
            "matches",
            ("order", "matching", "n-grams", "p"),
            zip_longest(range(1, orders + 1), counts[2 : 2 + orders], counts[2 + orders :], precisions),
        )
        short = f"Too short: the penalty is exp(1 − {counts[1]} / {counts[0]}) = {format_number(penalty)}"
        add_step(short if counts[0] < counts[1] else "Long enough: no penalty", penalty)
        roots = f"({' · '.join(map(format_number, precisions))})^(1/{len(precisions)})"
        mean = f"geometric mean of the {len(precisions)} orders there are"
        add_result(f"Sentence BLEU: penalty · {mean} = {format_number(penalty)} · {roots}", value)
    return value


def bleu_penalty(counts: Sequence[float]) -> float:
    """The brevity penalty: a factor of at most 1."""
    length, reference_length = counts[0], counts[1]
    if length < reference_length:
        return math.exp(1 - reference_length / length) if length > 0 else 0.0
    return 1.0


def bleu_precisions(
    counts: Sequence[float], *, smooth_method: Smooth, smooth_value: float, effective_order: bool
) -> list[float]:
    """The n-gram precisions in percent, smoothed, of the orders that count."""
    orders = (len(counts) - 2) // 2
    matches, totals = list(counts[2 : 2 + orders]), list(counts[2 + orders :])
    precisions = [0.0] * orders
    used, halving = orders, 1.0
    for order in range(orders):
        if smooth_method == "add-k" and order:
            matches[order] += smooth_value
            totals[order] += smooth_value
        if not totals[order]:
            break
        if effective_order:
            used = order + 1
        if matches[order]:
            precisions[order] = 100.0 * matches[order] / totals[order]
        elif smooth_method == "exp":
            halving *= 2
            precisions[order] = 100.0 / (halving * totals[order])
        elif smooth_method == "floor":
            precisions[order] = 100.0 * smooth_value / totals[order]
    return precisions[:used]


def bleu_of_rows(counts: Integers, *, smooth_method: Smooth, smooth_value: float) -> Floats:
    """``bleu_of_counts`` with its effective order, for a row of counts per answer; bit for bit equal.

    Arithmetic is done column by column. Logarithms, their sums and exponentials are those of the standard library, one
    by one: numpy's differ in the last digit.
    """
    orders = (counts.shape[1] - 2) // 2
    length, reference_length = counts[:, 0], counts[:, 1]
    logarithms: list[list[float]] = []  # one list per order
    used = np.zeros(len(counts), np.int64)
    halving, open_ = np.ones(len(counts)), np.ones(len(counts), np.bool_)
    for order in range(orders):
        matches, totals = counts[:, 2 + order].astype(np.float64), counts[:, 2 + orders + order].astype(np.float64)
        if smooth_method == "add-k" and order:
            matches, totals = matches + smooth_value, totals + smooth_value
        open_ &= totals > 0
        some, none = matches > 0, open_ & (matches == 0)
        safe = np.where(open_, totals, 1.0)
        precision = np.where(some, 100.0 * matches / safe, 0.0)
        if smooth_method == "exp":
            halving[none] *= 2
            precision[none] = (100.0 / (halving * safe))[none]
        elif smooth_method == "floor":
            precision[none] = (100.0 * smooth_value / safe)[none]
        every = [_log(value) for value in precision.tolist()]
        logarithms.append(np.where(open_, every, 0.0).tolist())
        used += open_
    any_match = counts[:, 2 : 2 + orders].any(axis=1)
    # Summed by sum(), as sacrebleu does: since Python 3.12 it rounds once, unlike repeated addition.
    sums = np.fromiter(map(sum, zip(*logarithms, strict=True)), np.float64, len(counts))
    means = np.where(any_match, sums / np.maximum(used, 1), 0.0)
    values = np.fromiter(map(math.exp, means.tolist()), np.float64, len(counts))
    short = any_match & (length < reference_length)
    penalty = np.ones(len(counts))
    penalty[short] = [
        math.exp(1 - r / c) for r, c in zip(reference_length[short].tolist(), length[short].tolist(), strict=True)
    ]
    return np.where(any_match, penalty * values, 0.0)


def _log(precision: float) -> float:
    return math.log(precision) if precision else _LOG_OF_NOTHING


_CASES = {True: "lc", False: "mixed"}
"""Whether text is in lower case, as in sacrebleu's own signature."""


class CorpusBleu(SumsReducer):
    """BLEU of the summed counts."""

    def __init__(self, smooth_method: Smooth, smooth_value: float) -> None:
        self.smooth_method: Smooth = smooth_method
        self.smooth_value = smooth_value
        self.name = f"bleu[{smooth_method},{signature_number(smooth_value)}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """The corpus value."""
        return bleu_of_counts(sums, smooth_method=self.smooth_method, smooth_value=self.smooth_value)


@register("bleu")
@dataclass(frozen=True)
class BleuScore(ReferencedMetric):
    r"""BLEU of all answers together (0 to 100): how many of their n-grams, up to four words, stand in a reference.

    .. math:: 100 \cdot \text{BP} \cdot \exp\Big(\tfrac{1}{N} \sum_{n=1}^{N} \ln p_n\Big), \quad
       \text{BP} = \min(1, e^{1 - r/c})

    p_n is the share of n-grams that match, over all answers at once; c and r are the lengths of answers and (closest)
    references. Value, tokens (`13a`) and smoothing are those of sacrebleu, all references of a sample at once. The
    score of a sample is its sentence BLEU; the value is not their mean, and its interval comes from drawing samples
    anew. A failed answer counts as an empty one. Where a fifth of the letters of all references are in a script without
    spaces, `tokenize: auto` takes `zh` instead of `13a`, or `char` if any of them is not Chinese. The tokenisers
    `none`, `char` and `zh` are built in too; any other name of sacrebleu's needs that package.
    """

    max_order: PositiveInt = 4
    smooth_method: Smooth = "exp"
    smooth_value: NonNegativeFloat | None = None
    tokenize: str = "auto"
    lowercase: bool = False
    level: Literal["corpus", "sample"] = field(default="corpus", kw_only=True)
    """``sample``: the mean over the samples, of all orders, which is 0 for a text of fewer words."""
    brevity: bool = field(default=True, kw_only=True)
    """Whether answers that are shorter than the reference are penalised."""
    only_order: bool = field(default=False, kw_only=True)
    """Only the precision of n-grams of ``max_order`` words."""

    metadata = declare(
        reference="Papineni et al. 2002; Post 2018 (sacrebleu 2)",
        range=(0.0, 100.0),
        examples=(
            "bleu",
            {"bleu": {"max_order": 2, "smooth_method": "floor"}},
            {"bleu": {"tokenize": "char"}},
            {"bleu": {"level": "sample", "brevity": False, "smooth_method": "none", "tokenize": "none"}},
            {"bleu": {"level": "sample", "only_order": True, "max_order": 1, "tokenize": "none"}},
        ),
        option_help={
            "level:sample": "the mean over the samples, not BLEU of all answers together",
            "brevity:no": "short answers are not penalised",
            "only_order:yes": "only the precision of the longest n-grams",
        },
        signature={
            "tok": SignatureOption("tokenize", words={"auto": "13a"}),
            "case": SignatureOption("lowercase", words=_CASES),
            "order": "max_order",
            "smooth": "_smoothing",
            "level": SignatureOption("level", unless="corpus"),
            "brevity": SignatureOption("brevity", unless=True),
            "only_order": SignatureOption("only_order", unless=False),
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level == "corpus" and (self.only_order or not self.brevity):
            raise BadValueError("'brevity: false' and 'only_order' go with 'level: sample'")
        if self.smooth_value is not None and self.smooth_method in ("exp", "none"):
            raise BadValueError(f"smooth_method '{self.smooth_method}' takes no smooth_value; leave it out")
        _ = self.words  # an unknown tokeniser is an error here, not when scoring
        reducer = Mean() if self.level == "sample" else CorpusBleu(self.smooth_method, self._smooth_value)
        object.__setattr__(self, "reducer", reducer)

    @property
    def words(self) -> Tokenizer | CharacterTokenizer:
        """The tokenizer."""
        match self.tokenize:
            case "auto":
                return bleu_tokenizer(lowercase=self.lowercase)
            case "13a" | "none" | "zh":
                return bleu_tokenizer(tokenize=self.tokenize, lowercase=self.lowercase)
            case "char":
                return CharacterTokenizer(lowercase=self.lowercase)
        if IMPORT_PATH.fullmatch(self.tokenize):
            return named_tokenizer(self.tokenize)
        return _sacrebleu_rule(self.tokenize, self.lowercase)

    @property
    def decides_tokens(self) -> bool:
        """Whether the references decide."""
        return self.tokenize == "auto"

    def for_samples(self, samples: Iterable[EvaluationSample]) -> Self:
        """The metric with the tokenizer that the references of all samples decide."""
        if not self.decides_tokens:
            return self
        return self._with_tokens(bleu_tokenization("\n".join(sample.references) for sample in samples))

    def for_signature(self, signature: str) -> Self:
        """The metric with the tokenizer that the references of a stored result decided."""
        tokens = Signature.parse(signature).options.get("tok", "13a")
        return self._with_tokens(tokens) if self.decides_tokens else self

    def _with_tokens(self, tokenize: str) -> Self:
        return self if tokenize == "13a" else with_option(self, "tokenize", tokenize)

    @property
    def worst_stats(self) -> tuple[float, ...]:
        """Those of an empty answer: a failed answer counts as one."""
        return () if self.level == "sample" else (math.nan,) * (2 + 2 * self.max_order)

    @property
    def _smooth_value(self) -> float:
        own = SMOOTH_VALUES[self.smooth_method] if self.smooth_value is None else self.smooth_value
        return float(own)

    @property
    def _smoothing(self) -> str:
        """The method with its value, as in sacrebleu's own signature."""
        takes_value = SMOOTH_VALUES[self.smooth_method] > 0
        return f"{self.smooth_method}[{signature_number(self._smooth_value)}]" if takes_value else self.smooth_method

    def score(self, batch: Batch) -> Scores:
        """Sentence BLEU of each answer, and its counts."""
        if self.level == "sample":
            return self.score_alone(batch, self._value_alone)
        given, texts = token_ids(batch, self.words, "answers"), token_ids(batch, self.words, "reference")
        matches = shared_with_references(batch, self.words, "reference")
        orders = range(1, self.max_order + 1)
        counts = np.column_stack(
            [
                given.counts,
                _closest(given.counts, texts.counts, reference_texts(batch, "reference").owners),
                *(matches[n] for n in orders),
                *(ngram_counts(given, n) for n in orders),
            ]
        )
        values = bleu_of_rows(counts, smooth_method=self.smooth_method, smooth_value=self._smooth_value)
        return self.outcome(batch, values, skip=self.without_reference(batch), stats=counts.astype(np.float64))

    def _value_alone(self, sample: EvaluationSample, answer: str) -> float:
        """BLEU of one sample, of all orders or of the longest n-grams alone."""
        words = self.words.tokenize
        references = [words(text) for text in sample.references]
        if not references:
            return 0.0
        counts = bleu_counts(words(answer), references, self.max_order)
        if not self.brevity:
            counts[1] = counts[0]
        if self.only_order:
            matches, total = counts[1 + self.max_order], counts[-1]
            return add_outcome(f"N-grams of {self.max_order} words, in per cent", 100.0 * matches / max(total, 1))
        return bleu_of_counts(counts, smooth_method=self.smooth_method, smooth_value=self._smooth_value)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """Sentence BLEU by the plain definition."""
        words = self.words.tokenize
        tokens = tokenize_answer(answer, words, "Tokens")
        if self.level == "sample":
            return Score(self._value_alone(sample, answer))
        counts = bleu_counts(tokens, list(map(words, sample.references)), self.max_order)
        smooth, value = self.smooth_method, self._smooth_value
        return Score(bleu_of_counts(counts, smooth_method=smooth, smooth_value=value, effective_order=True))


@lru_cache
def _sacrebleu_rule(tokenize: str, lowercase: bool) -> Tokenizer:
    """One of sacrebleu's own tokenisers."""
    bleu = MissingDependencyError.import_module(
        "sacrebleu.metrics.bleu", package="sacrebleu", purpose=f"BLEU's tokeniser '{tokenize}'", install="sacrebleu"
    )
    names = sorted(bleu.BLEU.TOKENIZERS)
    if tokenize not in names:
        raise BadValueError(f"bleu has no tokeniser '{tokenize}'; there are {', '.join(names)}")
    tokenizer = bleu.BLEU(tokenize=tokenize).tokenizer

    def words(text: str) -> list[str]:
        line: str = tokenizer((text.lower() if lowercase else text).rstrip())
        return line.split()

    return custom_tokenizer(f"bleu[{tokenize},{'lower' if lowercase else 'cased'}]", words)


def _closest(given: Integers, texts: Integers, owners: Integers) -> Integers:
    """Per answer the length of the reference that is closest in length, the shorter of two."""
    closest = np.zeros(len(given), np.int64)
    # The best comes first in each row; written in reverse, it is written last.
    order = np.lexsort((texts, np.abs(texts - given[owners]), owners))[::-1]
    closest[owners[order]] = texts[order]
    return closest


# --- chrF: overlap of answer and reference in character n-grams, which needs no tokenizer; equal to sacrebleu --------


def chrf_counts(answer: Sequence[str], reference: Sequence[str], orders: int) -> Iterator[int]:
    """The counts of one pair that chrF sums: per order the n-grams of each text, and the common ones.

    An order in which the reference has no n-gram counts none for the answer either.
    """
    for n in range(1, orders + 1):
        have, want = Counter(ngrams(answer, n)), Counter(ngrams(reference, n))
        yield from [have.total() if want else 0, want.total(), (have & want).total()]


def chrf_of_counts(counts: Sequence[float], beta: float) -> float:
    """chrF from the counts of one pair or the sums over many, from 0 to 100.

    Precision and recall are averaged over the orders for which both texts are long enough, then combined.
    """
    precision, recall = _mean_precision_and_recall(counts)
    if not precision + recall:
        return 0.0
    weight = beta**2
    return 100 * ((1 + weight) * precision * recall / (weight * precision + recall))


def _mean_precision_and_recall(counts: Sequence[float]) -> tuple[float, float]:
    """Precision and recall, averaged over the orders for which both texts are long enough."""
    precision = recall = 0.0
    used = 0
    for place in range(0, len(counts), 3):
        in_answer, in_reference, common = counts[place : place + 3]
        if in_answer > 0 and in_reference > 0:
            precision += common / in_answer
            recall += common / in_reference
            used += 1
    return precision / max(used, 1), recall / max(used, 1)


class CorpusChrF(SumsReducer):
    """chrF of the summed counts."""

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.name = f"chrf[{signature_number(beta)}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """The corpus value."""
        return chrf_of_counts(sums, self.beta)


@register("chrf")
@dataclass(frozen=True)
class ChrF(ReferencedMetric):
    r"""chrF of all answers together (0 to 100): F-score of character n-grams, up to six characters.

    .. math:: 100 \cdot (1 + \beta^2) P R / (\beta^2 P + R)

    P and R are the shares of common n-grams, averaged over the orders; recall weighs `beta` times as much. White space
    does not count unless `whitespace` is true; `word_order: 2` adds words and pairs of words (chrF++). Value and
    options are those of sacrebleu: of several references the best by F counts, the score of a sample is its sentence
    chrF, and the value is not their mean. A failed answer counts as an empty one.
    """

    char_order: PositiveInt = 6
    word_order: NonNegativeInt = 0
    beta: PositiveFloat = 2
    lowercase: bool = False
    whitespace: bool = False

    metadata = declare(
        reference="Popović 2015, 2017; Post 2018 (sacrebleu 2)",
        range=(0.0, 100.0),
        examples=(
            "chrf",
            {"chrf": {"word_order": 2, "beta": 1.5}},
        ),
        aliases={"papers": {"chrF++": {"word_order": 2}}},
        signature={
            "case": SignatureOption("lowercase", words=_CASES),
            "nc": "char_order",
            "nw": "word_order",
            "beta": "beta",
            "space": "whitespace",
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reducer", CorpusChrF(self.beta))

    @property
    def parts(self) -> list[tuple[Tokenizer | CharacterTokenizer, int]]:
        """The tokenizers and their highest n-gram orders: characters, and optionally words."""
        characters = CharacterTokenizer(lowercase=self.lowercase, whitespace=self.whitespace)
        words = [(chrf_tokenizer(lowercase=self.lowercase), self.word_order)] if self.word_order else []
        return [(characters, self.char_order), *words]

    @property
    def worst_stats(self) -> tuple[float, ...]:
        """Those of an empty answer: a failed answer counts as one."""
        return (math.nan,) * (3 * (self.char_order + self.word_order))

    def score(self, batch: Batch) -> Scores:
        """Sentence chrF of each answer, and the counts of its best reference."""
        columns = []
        for rule, orders in self.parts:
            sides, common = token_pairs(batch, rule, "reference"), shared_ngram_orders(batch, rule, "reference")
            for n in range(1, orders + 1):
                want = ngram_counts(sides.references, n)
                columns += [np.where(want > 0, ngram_counts(sides.answers, n), 0), want, common[n]]
        owners = reference_texts(batch, "reference").owners
        per_pair = np.column_stack(columns).astype(np.float64)
        values = np.array([chrf_of_counts(row, self.beta) for row in per_pair.tolist()])
        best = best_pairs(values, owners, len(batch))
        counts = np.zeros((len(batch), per_pair.shape[1]))
        counts[best >= 0] = per_pair[best[best >= 0]]
        return self.outcome(batch, select_pairs(values, best), skip=self.without_reference(batch), stats=counts)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """Sentence chrF by the plain definition."""
        every = [(self._plain_counts(answer, reference), reference) for reference in sample.references]
        counts, reference = max(every, key=lambda counted: chrf_of_counts(counted[0], self.beta))
        value = chrf_of_counts(counts, self.beta)
        if is_recording():
            self._record(answer, reference, counts, value)
        return Score(value)

    def _record(self, answer: str, reference: str, counts: Sequence[int], value: float) -> None:
        """Record the counts against the best reference, and what follows from them."""
        add_step(f"The answer: {quote_text(answer)}")
        add_step(f"The best reference: {quote_text(reference)}")
        units = [
            f"{n} {unit}"
            for unit, (_, orders) in zip(("characters", "words"), self.parts, strict=False)
            for n in range(1, orders + 1)
        ]
        add_table(
            "N-grams by order; an order for which a text is too short does not count",
            ("n-grams of", "in the answer", "in the reference", "in common"),
            zip(units, counts[::3], counts[1::3], counts[2::3], strict=True),
        )
        precision, recall = map(format_number, _mean_precision_and_recall(counts))
        add_step(f"Mean over the orders: P = common / answer = {precision}, R = common / reference = {recall}")
        weight = format_number(self.beta**2)
        add_result(f"chrF: 100 · (1 + β²) · P · R / (β² · P + R) with β² = {weight}", value)

    def _plain_counts(self, answer: str, reference: str) -> list[int]:
        counts: list[int] = []
        for rule, orders in self.parts:
            counts += chrf_counts(rule.tokenize(answer), rule.tokenize(reference), orders)
        return counts
