"""Options of signatures that the metadata of a metric declares."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from auepora_eval.core.batch import Batch
from auepora_eval.core.conventions import SignatureOption, signature_text
from auepora_eval.core.metrics_base import declare
from auepora_eval.core.registry import ConfiguredMetric
from auepora_eval.core.scores import Scores
from auepora_eval.core.types import TargetCategory

VALUES = [  # value, text, why
    (True, "yes", "a boolean is no number"),
    (False, "no", "a boolean is no number"),
    (3, "3", "an integer"),
    (2**60 + 1, "1152921504606846977", "an integer keeps all digits"),
    (2.0, "2", "the shortest form"),
    (0.1, "0.1", "the shortest form"),
    (1e-9, "1e-09", "the shortest form"),
    (np.float32(0.5), "0.5", "numbers of numpy"),
    (np.int64(7), "7", "numbers of numpy"),
    (Fraction(1, 2), "0.5", "any real number"),
    ("squad", "squad", "a string as it is"),
    (("a", 1.0, True), "a,1,yes", "a list with commas"),
    ((), "", "nothing in it"),
]


@pytest.mark.parametrize(
    ("value", "text"), [row[:2] for row in VALUES], ids=[f"{row[2]}: {row[0]!r}" for row in VALUES]
)
def test_value_in_a_signature(value: object, text: str) -> None:
    assert signature_text(value) == text


@dataclass(frozen=True)
class _Base(ConfiguredMetric):
    k: int | None = None
    norm: str = field(default="squad", kw_only=True)

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(signature={"norm": "norm", "k": "k"})

    def score(self, batch: Batch) -> Scores:
        return Scores.of(np.zeros(len(batch)))


@dataclass(frozen=True)
class _Sub(_Base):
    beta: float = field(default=1.0, kw_only=True)
    fold: bool = field(default=False, kw_only=True)
    depth: int | None = field(default=None, kw_only=True)
    labels: tuple[str, ...] = field(default=(), kw_only=True)

    metadata = declare(
        signature={
            "beta": SignatureOption("beta", unless=1),
            "case": SignatureOption("fold", words={True: "lc", False: "mixed"}),
            "depth": SignatureOption("depth", differs_from="k", words={None: "all"}),
            "labels": SignatureOption("labels", unless=(), write="+".join),
            "range": SignatureOption("metadata.range"),
        }
    )


OPTIONS = [  # options, what the subclass adds to its base's, why
    ({}, {"case": "mixed", "depth": "all"}, "defaults that are not shown"),
    ({"k": 5}, {"k": "5", "case": "mixed", "depth": "all"}, "None is not shown, a number is"),
    ({"beta": 0.5}, {"beta": "0.5", "case": "mixed", "depth": "all"}, "another value than the one left out"),
    ({"fold": True}, {"case": "lc", "depth": "all"}, "a word for a value"),
    ({"k": 3, "depth": 3}, {"k": "3", "case": "mixed"}, "equal to the other attribute"),
    ({"k": 5, "depth": 3}, {"k": "5", "case": "mixed", "depth": "3"}, "different from the other attribute"),
    ({"labels": ("a", "b")}, {"case": "mixed", "depth": "all", "labels": "a+b"}, "written by a function"),
]


@pytest.mark.parametrize(("options", "shown"), [row[:2] for row in OPTIONS], ids=[row[2] for row in OPTIONS])
def test_declared_options(options: dict[str, Any], shown: dict[str, str]) -> None:
    expected = {"norm": "squad", **shown, "range": "0,1"}
    assert list(_Sub(**options).signature_options().items()) == list(expected.items())


def test_a_base_does_not_get_the_options_of_its_subclass() -> None:
    assert str(_Base(2).signature) == "_base|norm:squad|k:2|v1"


def test_nothing_declared_shows_the_class_and_changed_options() -> None:
    @dataclass(frozen=True)
    class Plain(ConfiguredMetric):
        n: int = 2

        target = TargetCategory.GENERATION_CORRECTNESS

        def score(self, batch: Batch) -> Scores:
            return Scores.of(np.zeros(len(batch)))

    assert list(Plain(3).signature_options()) == ["by", "n"]


def test_an_empty_declaration_shows_no_option() -> None:
    @dataclass(frozen=True)
    class Named(ConfiguredMetric):
        n: int = 2

        target = TargetCategory.GENERATION_CORRECTNESS
        metadata = declare(signature={})

        def score(self, batch: Batch) -> Scores:
            return Scores.of(np.zeros(len(batch)))

    assert Named(3).signature_options() == {}


def test_a_base_may_come_last() -> None:
    @dataclass(frozen=True)
    class Last(_Base):
        metadata = declare(signature={"norm": SignatureOption("norm", last=True)})

    @dataclass(frozen=True)
    class After(Last):
        n: int = field(default=2, kw_only=True)
        metadata = declare(signature={"n": "n"})

    assert list(After(5).signature_options().items()) == [("k", "5"), ("n", "2"), ("norm", "squad")]


def test_a_subclass_takes_an_option_away() -> None:
    @dataclass(frozen=True)
    class Without(_Base):
        metadata = declare(signature={"norm": None})

    assert Without(5).signature_options() == {"k": "5"}


def test_a_method_overrides_what_is_declared() -> None:
    @dataclass(frozen=True)
    class Own(_Base):
        def signature_options(self) -> dict[str, str]:
            return {**super().signature_options(), "mine": "yes"}

    assert Own().signature_options() == {"norm": "squad", "mine": "yes"}
