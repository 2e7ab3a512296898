"""The mean of a scale's labels, weighted by the probabilities a judge gave them at the place of its score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MIN_LABEL_MASS", "ExpectedScore", "TokenLogprob", "expected_score", "parse_logprobs", "single_digit_labels"]

MIN_LABEL_MASS = 0.9
"""How much of the probability must fall on the labels for their mean to mean anything."""
_ROUNDING = 1e-3
"""Probabilities are sent rounded: their sum may be above 1 by this much."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of an answer, and what could have stood in its place."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens here, itself among them if it is one, with the logarithms of their probabilities."""
    data: bytes | None = None
    """Its bytes, where it may be part of a character."""


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """A mean over labels, renormalised, and how much of the probability fell on them."""

    value: float | None
    """``None`` where the mass is below ``LEAST_MASS``."""
    mass: float


def single_digit_labels(schema: Mapping[str, Any]) -> list[int]:
    """The labels of a scale of whole numbers, if each is one digit, or nothing.

    With longer labels a first token says too little: ``1`` may go on to be ``10``.
    """
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, bool) or isinstance(most, bool):
        return []
    if not isinstance(least, (int, float)) or not isinstance(most, (int, float)):
        return []
    if least != int(least) or most != int(most) or not 0 <= least < most <= 9:
        return []
    return list(range(int(least), int(most) + 1))


def parse_logprobs(content: Any) -> list[TokenLogprob] | None:
    """The tokens of a reply's ``logprobs.content``; ``None`` where they are not as the protocol has them."""
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
    """The mean of the labels at the token that is the number at ``span`` of the text.

    ``None`` where no token is just that number, blanks and quotes aside, so that nothing can be said about it.
    """
    token = _token_at(tokens, text, span)
    by_text = {str(label): label for label in labels}
    if token is None or _bare(token.text) not in by_text:
        return None
    others = token.alternatives
    if token.text not in {other for other, _ in others}:
        others = (*others, (token.text, token.logprob))
    found = [(by_text[_bare(other)], math.exp(logprob)) for other, logprob in others if _bare(other) in by_text]
    # Rounded, or what is .9 by the chances would be less by their logarithms.
    mass = round(math.fsum(chance for _, chance in found), 12)
    if not 0 < mass <= 1 + _ROUNDING:
        return None
    mean = math.fsum(label * chance for label, chance in found) / mass
    # Rounding may not carry a mean beyond the labels it is of.
    mean = min(max(mean, float(min(labels))), float(max(labels)))
    return ExpectedScore(mean if mass >= MIN_LABEL_MASS else None, min(mass, 1.0))


def _token_at(tokens: Sequence[TokenLogprob], text: str, span: tuple[int, int]) -> TokenLogprob | None:
    """The one token in which all of a span stands."""
    start, end = span
    while start < end and not text[start].isdigit():  # a number in quotes
        start += 1
    while start < end and not text[end - 1].isdigit():
        end -= 1
    pieces = [token.text.encode(errors="replace") if token.data is None else token.data for token in tokens]
    said, whole = b"".join(pieces), text.strip().encode(errors="replace")
    if start == end or said.count(whole) != 1:
        return None  # what was sent is not what the tokens say: places cannot be told
    lead = len(text) - len(text.lstrip())
    first = said.index(whole) + len(text[lead:start].encode(errors="replace"))
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
