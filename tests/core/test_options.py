"""Declared types of options: every kind of constraint, and the check of dataclasses, functions and constructors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest

from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.options import (
    Ge,
    Gt,
    Le,
    Lt,
    NonEmpty,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_arguments,
    check_options,
    describe_type,
    first_problem,
    option_types,
    problem_of,
)

if TYPE_CHECKING:
    from decimal import Decimal

NAN, INF = float("nan"), float("inf")
Proportion = Annotated[float, Ge(0), Le(1)]
Method = Literal["mean", "min"]


@dataclass
class Price:
    """A class of its own."""


ROWS: list[tuple[Any, list[Any], list[tuple[Any, str]], str]] = [  # type, valid, (invalid, problem), description
    (int, [0, -3, 10**400], [(True, "an integer, not True"), (1.0, "not 1.0"), (np.int64(1), "not np.int64(1)"), (None, "not None")], "integer"),
    (float, [0, -1.5, np.float64(1)], [(False, "a number, not False"), (NAN, "nan; it must be finite"), (-INF, "finite"), (10**400, "finite"), ("2", "'2'; leave out the quotes")], "number"),
    (Annotated[int, Ge(1), Le(9, shown=False)], [9], [(0, "an integer >= 1, not 0"), (10, "an integer >= 1, not 10; it must be <= 9"), ("1", "leave out")], "integer >= 1"),
    (bool, [True, False], [(1, "true or false, not 1"), ("yes", "not 'yes'")], "true or false"),
    (str, ["", "a"], [(5, "a string, not 5"), (b"a", "not b'a'")], "string"),
    (PositiveInt, [1, 7], [(0, "an integer >= 1, not 0"), (True, ">= 1, not True"), ("3", "'3'; leave out the quotes"), ("x", ">= 1, not 'x'")], "integer >= 1"),
    (PositiveFloat, [0.1, 3], [(0, "a number > 0, not 0"), (NAN, "not nan")], "number > 0"),
    (Annotated[float, Lt(1)], [0.9], [(1, "a number < 1, not 1")], "number < 1"),
    (Proportion, [0, 1, 0.5], [(1.1, "a number >= 0 and <= 1, not 1.1"), (-0.1, "not -0.1")], "number >= 0 and <= 1"),
    (Annotated[float, Gt(0), Lt(1)], [0.5], [(1, "a number > 0 and < 1, not 1")], "number > 0 and < 1"),
    (PositiveInt | None, [None, 1], [(0, "an integer >= 1, not 0"), (False, "not False")], "integer >= 1 or none"),
    (Method, ["mean", "min"], [("men", "one of mean, min; not 'men'; did you mean 'mean'?"), (3, "not 3"), (["mean"], "not ['mean']")], "one of mean, min"),
    (Literal["ALL"] | PositiveInt, ["ALL", 2], [("all", "ALL or an integer >= 1, not 'all'"), (True, "not True")], "ALL or an integer >= 1"),
    (Annotated[str, NonEmpty()], ["a"], [("", "a non-empty string, not ''"), (" ", "not ' '"), (3, "not 3")], "non-empty string"),
    (tuple[str, ...], [("a",), ["a", "b"], {"a"}, ()], [("ab", "a list of strings, not 'ab'"), (["a", 3], "at position 2 must be a string, not 3"), ({}, "a list of strings, not {}")], "list of strings"),
    (tuple[Method, ...] | None, [None, ["min"]], [(["min", "max"], "at position 2 must be one of mean, min; not 'max'")], "list of values, each one of mean, min or none"),
    (Annotated[list[int], NonEmpty()], [[1]], [([], "a non-empty list of integers, not []"), ([True], "at position 1 must be an integer, not True")], "non-empty list of integers"),
    (Mapping[str, PositiveFloat], [{}, {"a": 2}], [({"a": 0}, "at 'a' must be a number > 0, not 0"), ({1: 1}, "has the key 1, which must be a string, not 1"), ([], "a mapping, not []")], "mapping"),
    (str | Path | None, ["a", Path("a"), None], [(3, "a string or a path, not 3")], "string or a path or none"),
    (Price, [Price()], [("price", "a Price object, not 'price'")], "Price object"),
    (Any, [None, object()], [], ""),
    (Callable[[str], str] | None, [None, str.lower], [(3, "a function, not 3")], "function or none"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_a_type_accepts_its_values_and_names_the_others(row: tuple[Any, list[Any], list[tuple[Any, str]], str]) -> None:
    hint, valid, invalid, description = row
    assert [value for value in valid if problem_of(hint, value) is not None] == []
    assert [(value, found) for value, want in invalid if want not in (found := str(problem_of(hint, value)))] == []
    assert describe_type(hint) == description


def test_a_caller_may_describe_the_value() -> None:
    assert (
        problem_of(PositiveInt, "x", describe=lambda value: f"the text {value!r}")
        == "must be an integer >= 1, not the text 'x'"
    )


@dataclass(frozen=True)
class Base:
    """Options."""

    k: PositiveInt = 5
    by: Method = field(default="mean", kw_only=True)
    made: str = field(default="", init=False)
    unknown: "Decimal | None" = field(default=None, kw_only=True)
    """A name that does not exist at run time: the option is not checked."""

    def __post_init__(self) -> None:
        check_options(self)


def listed(names: list[str], weights: Mapping[str, PositiveFloat]) -> None:
    """A function."""


@dataclass(frozen=True)
class Derived(Base):
    """More options, and another range."""

    k: NonNegativeInt = 0
    ratio: Proportion = 0.5


def test_options_of_a_dataclass() -> None:
    assert list(option_types(Derived)) == ["k", "by", "unknown", "ratio"]
    Derived(0, unknown=3)  # type: ignore[arg-type]
    with pytest.raises(BadValueError, match=r"^k must be an integer >= 1, not 0$") as one:
        Base(0)
    with pytest.raises(BadTypeError, match=r"k must be .* not '1'; leave out the quotes; ratio must be .* not 2$"):
        Derived("1", ratio=2)  # type: ignore[arg-type]
    assert type(one.value) is BadValueError
    with pytest.raises(BadTypeError, match=r"^names at position 2 must be a string, not 3$"):
        check_options(listed, {"names": ["a", 3]})
    with pytest.raises(BadValueError, match=r"^weights at 'a' must be a number > 0, not 0$") as two:
        check_options(listed, {"weights": {"a": 0}})
    assert type(two.value) is BadValueError


class Service:
    """A class with a constructor."""

    @check_arguments
    def __init__(self, name: Annotated[str, NonEmpty()], *rest: int, retries: NonNegativeInt = -1, **more: Any) -> None:
        self.name, self.retries = name, retries


@check_arguments
def odd(a: "no hint" = 1, b: [5] = (), c: Annotated[int, {}] = 2, *rest: int) -> None:  # type: ignore[valid-type]  # noqa: F722
    """A function whose annotations are not types."""


@check_arguments
def scaled(value: float, by: PositiveFloat | None = None) -> float:
    """A function."""
    return value * (by or 1)


def test_arguments_of_functions_and_constructors() -> None:
    assert (scaled(3.0), scaled(3.0, 2), Service("a", 1, retries=2, more=3).retries) == (3, 6, 2)
    assert Service("a").retries == -1  # defaults are not checked
    with pytest.raises(BadValueError, match=r"^by must be a number > 0, not -1$"):
        scaled(1, -1)
    with pytest.raises(
        BadTypeError, match=r"^name must be a non-empty string, not 5; retries must be an integer >= 0, not -1"
    ):
        Service(5, retries=-1)  # type: ignore[arg-type]
    odd("x", 5, 3, 4)
    with pytest.raises(BadTypeError, match=r"^c must be an integer, not 'x'$"):
        odd(c="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        scaled(1, be=2)  # type: ignore[call-arg]


@dataclass
class Row:
    """A line of a file."""

    sample_id: Annotated[str, NonEmpty(), "an id"]
    position: Annotated[int, Ge(1), "an integer from 1 up"] | None = None
    other: Any = None


FILE_ROWS: list[tuple[dict[str, object], tuple[str, str] | None, str]] = [  # values, name and problem, why
    ({"sample_id": "q", "position": 1, "other": object()}, None, "all fit, and what is not declared is not checked"),
    ({"sample_id": " "}, ("sample_id", "must be an id, not ' '"), "an empty id"),
    ({"sample_id": 3, "position": 0}, ("sample_id", "must be an id, not 3"), "the first problem alone"),
    ({"position": 0}, ("position", "must be an integer from 1 up, not 0"), "a described limit"),
    ({"position": None, "unknown": 1}, None, "optional, and a name that is not declared"),
]


@pytest.mark.parametrize(("values", "expected", "why"), FILE_ROWS, ids=[row[-1] for row in FILE_ROWS])
def test_first_problem(values: dict[str, object], expected: tuple[str, str] | None, why: str) -> None:
    assert first_problem(Row, values) == expected
