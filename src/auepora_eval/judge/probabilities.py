"""Expected score: the mean of a scale's labels, weighted by the token probabilities at the position of the score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MIN_LABEL_MASS", "ExpectedScore", "TokenLogprob", "expected_score", "parse_logprobs", "single_digit_labels"]

MIN_LABEL_MASS = 0.9
"""Minimum probability mass on the labels for their mean to be used."""
_ROUNDING = 1e-3
"""Probabilities are sent rounded: their sum may be above 1 by this much."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a reply with its log-probability and the alternatives at its position."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()
    """The most likely tokens at this position, possibly including itself, with their log-probabilities."""
    data: bytes | None = None
    """Its bytes, where it may be part of a character."""


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """A renormalised mean over labels, and the probability mass on them."""

    value: float | None
    """``None`` if the mass is below ``MIN_LABEL_MASS``."""
    mass: float


def single_digit_labels(schema: Mapping[str, Any]) -> list[int]:
    """The labels of an integer scale if each is a single digit; else an empty list.

    The first token of a longer label is ambiguous: ``1`` may continue as ``10``.
    """
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if isinstance(minimum, bool) or isinstance(maximum, bool):
        return []
    if not isinstance(minimum, (int, float)) or not isinstance(maximum, (int, float)):
        return []
    if minimum != int(minimum) or maximum != int(maximum) or not 0 <= minimum < maximum <= 9:
        return []
    return list(range(int(minimum), int(maximum) + 1))


def parse_logprobs(content: Any) -> list[TokenLogprob] | None:
    """The tokens of a reply's ``logprobs.content``; ``None`` if they violate the protocol."""
    if not isinstance(content, list) or not content:
        return None
    try:
        return [
            TokenLogprob(
                _text(one),
                _logprob(one),
                tuple((_text(other), _logprob(other)) for other in one.get("top_logprobs") or ()),
                bytes(one["bytes"]) if one.get("bytes") else None,
            )
            for one in content
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def expected_score(
    tokens: Sequence[TokenLogprob], text: str, span: tuple[int, int], labels: Sequence[int]
) -> ExpectedScore | None:
    """The expected label at the token that is the number at ``span`` of the text.

    ``None`` if no token is exactly that number, apart from blanks and quotes.
    """
    token = _token_at(tokens, text, span)
    by_text = {str(label): label for label in labels}
    if token is None or _bare(token.text) not in by_text:
        return None
    others = token.alternatives
    if token.text not in {other for other, _ in others}:
        others = (*others, (token.text, token.logprob))
    weighted_labels = [
        (by_text[_bare(other)], math.exp(logprob)) for other, logprob in others if _bare(other) in by_text
    ]
    # Rounded: a mass of 0.9 could fall below it through the logarithms.
    mass = round(math.fsum(probability for _, probability in weighted_labels), 12)
    if not 0 < mass <= 1 + _ROUNDING:
        return None
    mean = math.fsum(label * probability for label, probability in weighted_labels) / mass
    # Rounding must not move the mean outside the labels.
    mean = min(max(mean, float(min(labels))), float(max(labels)))
    return ExpectedScore(mean if mass >= MIN_LABEL_MASS else None, min(mass, 1.0))


def _token_at(tokens: Sequence[TokenLogprob], text: str, span: tuple[int, int]) -> TokenLogprob | None:
    """The single token that contains a span."""
    start, end = span
    while start < end and not text[start].isdigit():  # a number in quotes
        start += 1
    while start < end and not text[end - 1].isdigit():
        end -= 1
    pieces = [token.text.encode(errors="replace") if token.data is None else token.data for token in tokens]
    reply_bytes, text_bytes = b"".join(pieces), text.strip().encode(errors="replace")
    if start == end or reply_bytes.count(text_bytes) != 1:
        return None  # the tokens do not match the text: positions are unknown
    lead = len(text) - len(text.lstrip())
    first = reply_bytes.index(text_bytes) + len(text[lead:start].encode(errors="replace"))
    last = first + end - start  # digits are one byte each
    at = 0
    for token, piece in zip(tokens, pieces, strict=True):
        if at <= first < at + len(piece):
            return token if last <= at + len(piece) else None
        at += len(piece)
    return None


def _bare(text: str) -> str:
    return text.strip(" \t\r\n▁Ġ")


def _text(one: Mapping[str, Any]) -> str:
    text = one["token"]
    if not isinstance(text, str):
        raise TypeError
    return text


def _logprob(one: Mapping[str, Any]) -> float:
    value = one["logprob"]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value > _ROUNDING:
        raise ValueError
    return float(value)
