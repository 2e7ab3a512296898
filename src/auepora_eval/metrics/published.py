"""Metrics of published scripts that have no other form here: shared words, choices, lists, evidence, truthfulness."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..core.conventions import SignatureOption, without_separator
from ..core.derivation import add_outcome, add_step, format_number, join_items, quote_text
from ..core.metrics_base import SampleMetric, declare, set_metadata
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadValueError
from ..options import PositiveInt
from ..text.norms import normalized_text
from .answer_match import reference_slots

Part = Literal["f1", "precision", "recall", "em"]
_PART_HELP = {"part": "F1, precision, recall, or whether both are equal (em)"}


@dataclass(frozen=True)
class _PublishedMetric(ConfiguredMetric, SampleMetric):
    """A metric of one answer and its references, asked for by name."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        requires=("reference_answer",),
        suggested=False,
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "no_response": "no answer was asked for",
        },
    )


@register("shared_word")
@dataclass(frozen=True)
class SharedWord(_PublishedMetric):
    r"""1 if the answer has a word of the reference, else 0.

    .. math:: [\,\text{words}(\text{answer}) \cap \text{words}(r) \ne \emptyset\,]

    Words are what stands between blanks, in lower case and with their punctuation, as in MultiHop-RAG's script. With
    `extract`, a regular expression, the first group is taken from an answer that it matches. It is easy to satisfy: an
    article that both have is enough.
    """

    extract: str | None = None

    metadata = declare(
        binary=True,
        examples=("shared_word", {"shared_word": {"extract": "is (.*)"}}),
        signature={"extract": SignatureOption("extract", write=without_separator)},
        option_help={"extract": "the expression whose first group is compared"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extract is not None and not _pattern(self.extract).groups:
            raise BadValueError("extract needs a group, which is what is taken: put ( and ) around that part")

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether a word is shared."""
        answer = response_text(output)
        found = _pattern(self.extract).search(answer) if self.extract else None
        text = answer if found is None else found[1] or ""
        shared = set(text.lower().split()) & set(" ".join(sample.references).lower().split())
        add_step(f"The answer, as compared: {quote_text(text)}")
        return Score(add_outcome(f"Shared words: {join_items(sorted(shared), nothing='none')}", float(bool(shared))))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise BadValueError(f"{text!r:.80} is no regular expression: {error}") from None


def part_value(part: str, precision: float, recall: float, *, is_equal: bool) -> float:
    """The part of a comparison: precision, recall, equality, or else F1."""
    values = {"precision": precision, "recall": recall, "em": float(is_equal)}
    if part in values:
        return values[part]
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def ratio(count: int, total: int) -> float:
    """A count over a total; 0 where there is nothing."""
    return count / total if total else 0.0


@register("evidence_match")
@dataclass(frozen=True)
class EvidenceMatch(ConfiguredMetric, SampleMetric):
    r"""F1 of the evidence that a system names and the evidence that the question needs, as sets.

    .. math:: 2 P R / (P + R), \quad P = |E \cap N| / |N|, \quad R = |E \cap N| / |E|

    E, the gold, is `metadata["evidence"]`, and N what the system names, `extra["evidence"]` (or under the name `key`):
    lists of ids, or of tuples such as title and sentence number. `part` is f1, precision, recall or em (1 if both sets
    are equal).
    """

    part: Part = "f1"
    key: str = "evidence"
    ignore_case: bool = False
    both_empty: Literal[0, 1] = 1

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        reads=frozenset(),
        suggested=False,
        skip_reasons={"no_evidence": "the metadata of the sample has no evidence under that name"},
        reference="Yang et al. 2018 (HotpotQA); Trivedi et al. 2022 (MuSiQue)",
        examples=(
            {"evidence_match": {"key": "expected_doc_ids"}},
            {"evidence_match": {"key": "expected_doc_ids", "part": "em", "ignore_case": True}},
            {"evidence_match": {"key": "expected_doc_ids", "part": "recall", "both_empty": 0}},
        ),
        option_help={
            **_PART_HELP,
            "key": "the name of the evidence in metadata and extra",
            "case:ignored": "case is ignored",
            "both_empty": "the value where neither side has evidence",
        },
        signature={
            "part": "part",
            "key": SignatureOption("key", unless="evidence", write=without_separator),
            "case": SignatureOption("ignore_case", unless=False, words={True: "ignored"}),
            "both_empty": SignatureOption("both_empty", unless=1),
        },
    )

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without evidence."""
        return None if isinstance(sample.metadata.get(self.key), (list, tuple)) else "no_evidence"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The part of the comparison."""
        given = output.extra.get(self.key)
        if given is not None and not isinstance(given, (list, tuple)):
            return Score.fail("bad_evidence")
        gold, named = self._set(sample.metadata[self.key]), self._set(given or ())
        common = len(gold & named)
        add_step(f"Evidence: {len(gold)} wanted, {len(named)} named, {common} of them wanted")
        precision, recall = ratio(common, len(named)), ratio(common, len(gold))
        value = part_value(self.part, precision, recall, is_equal=gold == named)
        if self.part != "em" and not gold and not named:
            value = float(self.both_empty)
        return Score(add_outcome(f"{self.part}: {format_number(value)}", value))

    def _set(self, items: Sequence[Any]) -> set[tuple[str, ...]]:
        return {self._item(item) for item in items}

    def _item(self, item: Any) -> tuple[str, ...]:
        parts = item if isinstance(item, (list, tuple)) else (item,)
        texts = [str(part) for part in parts]
        return tuple(text.lower() for text in texts) if self.ignore_case else tuple(texts)


@register("list_match")
@dataclass(frozen=True)
class ListMatch(_PublishedMetric):
    r"""F1 of a list in the answer and the things that the reference names, each by any of its spellings.

    .. math:: 2 P R / (P + R)

    The answer is split at `split`; items are normalised as in `exact_match`. The precision counts items that are a
    spelling of anything, the recall things of which a spelling is an item. With `top` the recall is
    min(top, things found) / min(top, things), as QAMPARI's Recall-5. `part` is f1, precision, recall, em or items,
    which is the number of items.
    """

    split: str = ","
    top: PositiveInt | None = None
    part: Part | Literal["items"] = "f1"

    metadata = declare(
        reference="Amouyal et al. 2022 (QAMPARI); Gao et al. 2023 (ALCE)",
        skip_reasons={**_PublishedMetric.metadata.skip_reasons},
        examples=(
            "list_match",
            {"list_match": {"split": " ", "top": 5}},
            {"list_match": {"split": " ", "part": "precision"}},
            {"list_match": {"part": "items"}},
        ),
        signature={
            "part": "part",
            "split": SignatureOption("split", write=without_separator),
            "top": SignatureOption("top"),
        },
        option_help={
            **_PART_HELP,
            "split": "what separates the items of an answer",
            "top": "so many things are enough for a recall of 1",
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part == "items":
            set_metadata(self, range=(0.0, math.inf), has_direction=False)

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The part of the comparison."""
        alternatives = reference_slots(sample)
        if not alternatives:
            return Score.fail("bad_reference")
        things = [_normalized_names(names) for names in alternatives[0]]
        pieces = response_text(output).rstrip().rstrip(".").split(self.split)
        items = [normalized_text(piece, "squad") for piece in pieces]
        items = [item for item in items if item]
        known = set().union(*things)
        right = sum(item in known for item in items)
        found = sum(not thing.isdisjoint(items) for thing in things)
        add_step(f"Items: {join_items(items, nothing='none')}; {right} of them right; {found} of {len(things)} named")
        value = self._value(right, len(items), found, len(things))
        return Score(add_outcome(f"{self.part}: {format_number(value)}", value))

    def _value(self, right: int, items: int, found: int, things: int) -> float:
        if self.part == "items":
            return float(items)
        most = things if self.top is None else min(self.top, things)
        is_equal = right == items and found == things
        return part_value(self.part, ratio(right, items), ratio(min(found, most), most), is_equal=is_equal)


def _normalized_names(names: Iterable[str]) -> set[str]:
    return {normalized_text(name, "squad") for name in names}


@register("response_length")
@dataclass(frozen=True)
class ResponseLength(ConfiguredMetric, SampleMetric):
    r"""Mean length of the answers, in words or in characters.

    .. math:: |\text{answer}|

    Words are what stands between white space. A length is neither good nor bad: it tells whether systems can be
    compared by metrics that favour long or short answers.
    """

    unit: Literal["words", "characters"] = "words"

    target = TargetCategory.GENERATION_RELEVANCE
    metadata = declare(
        reads=frozenset({"response"}),
        range=(0.0, math.inf),
        has_direction=False,
        counts_system_failures=False,
        suggested=False,
        skip_reasons={"no_response": "no answer was asked for"},
        examples=("response_length", {"response_length": {"unit": "characters"}}),
        signature={"unit": "unit"},
        option_help={"unit": "what is counted"},
    )

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The length of one answer."""
        answer = response_text(output)
        add_step(f"The answer: {quote_text(answer)}")
        counted = answer.split() if self.unit == "words" else answer
        return Score(add_outcome(f"Its {self.unit}", float(len(counted))))


@register("label_error")
@dataclass(frozen=True)
class LabelError(ConfiguredMetric, SampleMetric):
    r"""Squared difference of a number in the metadata and a label: how far the score of a judge is from that of people.

    .. math:: (\text{prediction} - \text{label})^2

    The number is `metadata[prediction]`, or `extra[prediction]` of the output; its square root over all samples is the
    RMSE that RAGBench reports. Numbers between 0 and 1 are expected.
    """

    prediction: str = "prediction"
    label: str = "label"

    target = TargetCategory.GENERATION_FAITHFULNESS
    needs_response = False
    metadata = declare(
        higher_is_better=False,
        suggested=False,
        skip_reasons={"no_label": "the label is no number", "no_prediction": "there is no number to compare with it"},
        examples=({"label_error": {"label": "noise_ratio", "prediction": "wrong_answer"}},),
        range=(0.0, math.inf),
        signature={"prediction": "prediction", "label": "label"},
        option_help={"prediction": "the key of the number", "label": "the label that it is compared with"},
    )

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The squared difference."""
        number = output.extra.get(self.prediction, sample.metadata.get(self.prediction))
        label = sample.labels.get(self.label)
        if not isinstance(label, (int, float)):
            return Score.skip("no_label")
        if not isinstance(number, (int, float)):
            return Score.skip("no_prediction")
        return Score(add_outcome(f"({number} − {label})²", float(number - label) ** 2))


# --- multiple choice -------------------------------------------------------------------------------------------------

_LETTERS = re.compile(r"[A-Z]")
_MIRAGE_MARKER = '"answer_choice": "'
_MIRAGE_RULES = (
    r"^\s*(L)$", r"^\s*(L) or", r"^\s*(L) and", r"^\s*(L)/", r"^\s*(L),", r"[Oo]ption (L)", r":\s*(L)", r"^\s*(L)\.",
    r'^\s*(L)"', r"^\s*(L):",
)  # fmt: skip
"""MIRAGE's rules in their order; L stands for the letters A to D."""
_OWN_RULES = (r"\(((?i:L))\)", r"(?i:answer|option|choice)\W*(?i:is)?\W*(L)\b", r"^\W*(L)\b(?!\s+\w)", r"\b(L)[).:]")
"""Our rules, of which the first that occurs counts, at its last place."""


def mirage_letter(text: str) -> str | None:
    """The letter that MIRAGE's script reads from an answer; ``None`` where no rule fits.

    >>> mirage_letter("The answer is: C"), mirage_letter("B) no")
    ('C', None)
    """
    text = text.split(_MIRAGE_MARKER)[-1].strip()
    for rule in _MIRAGE_RULES:
        found = re.search(rule.replace("L", "A|B|C|D"), text)
        if found is not None:
            return found[1]
    return None


def chosen_letter(text: str, options: Mapping[str, str]) -> str | None:
    """The letter of an answer: in brackets, after "answer" or "option", at the start, or by the text of an option."""
    letters = "|".join(re.escape(letter) for letter in options) or "[A-Z]"
    for rule in _OWN_RULES:
        found = re.findall(rule.replace("L", letters), text.strip())
        if found:
            letter: str = found[-1]
            return letter.upper()
    by_text = {normalized_text(option, "squad"): letter for letter, option in options.items()}
    return by_text.get(normalized_text(text, "squad"))


@register("choice_accuracy")
@dataclass(frozen=True)
class ChoiceAccuracy(_PublishedMetric):
    r"""1 if the answer chooses the right option of a question with several, else 0.

    .. math:: [\,\text{letter}(\text{answer}) = \text{letter}(r)\,]

    The reference is the letter, and `metadata["options"]` has the texts of the options. The letter is read from
    brackets, after "answer" or "option", or at the start; else an answer that is the text of an option chooses it. With
    `read: mirage` the ten rules of MIRAGE's script decide, upper case only. `fallback` is the letter of an answer
    without one: by default such an answer is wrong; MIRAGE's script takes A.
    """

    read: Literal["letters", "mirage"] = "letters"
    fallback: str | None = None

    metadata = declare(
        binary=True,
        reference="Xiong et al. 2024 (MIRAGE)",
        examples=(
            "choice_accuracy",
            {"choice_accuracy": {"read": "mirage", "fallback": "A"}},
        ),
        signature={"read": "read", "fallback": SignatureOption("fallback", words={None: "wrong"})},
        option_help={"read": "how the letter is read from an answer", "fallback": "what an answer without a letter is"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fallback is not None and not _LETTERS.fullmatch(self.fallback):
            raise BadValueError(f"fallback is one upper-case letter, not {self.fallback!r:.80}")

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the letter is that of the reference."""
        options = sample.metadata.get("options")
        known = {str(key): str(text) for key, text in options.items()} if isinstance(options, Mapping) else {}
        answer = response_text(output)
        letter = mirage_letter(answer) if self.read == "mirage" else chosen_letter(answer, known)
        add_step(f"The answer: {quote_text(answer)}; its letter: {letter or 'none'}")
        chosen = letter or self.fallback
        wanted = {text.strip() for text in sample.references}
        return Score(add_outcome(f"Right is {join_items(sorted(wanted))}", float(chosen in wanted)))
