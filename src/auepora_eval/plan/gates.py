"""Gates: their kinds, their grammar with the positions of syntax errors, and the metrics they name."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..errors import AueporaError, BadTypeError, BadValueError, did_you_mean
from ..render.tables import format_value

# --- the tokenizer, and syntax errors with their position ------------------------------------------------------------

Kind = Literal["word", "quoted", "sign", "mark", "end"]

# A word may hold a bracketed part with anything in it: quantile_latency[end_to_end,0.95].
_TOKEN = re.compile(
    r"""(?P<word>(?:[^\s()\[\]<>=!,'"]|\[[^\[\]]*\])+)
      | (?P<quoted>'[^']*'|"[^"]*")
      | (?P<sign>[<>=!]+)
      | (?P<mark>[(),])""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*")
_MAX_SHOWN = 120


@dataclass(frozen=True, slots=True)
class GateToken:
    """A token of a gate, and its position."""

    kind: Kind
    text: str
    start: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:_MAX_SHOWN])


def tokenize(text: str) -> list[GateToken]:
    """The tokens of a gate; the last one marks its end."""
    tokens: list[GateToken] = []
    position = _BLANK.match(text).end()  # type: ignore[union-attr]  # it matches everywhere
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = {"'": "a quote that is not closed", '"': "a quote that is not closed"}
            problem = what.get(text[position], f"a {text[position]!r} without its partner")
            raise syntax_error(text, position, f"there is {problem}")
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are the kinds
        value = match[0]
        tokens.append(GateToken(kind, value[1:-1] if kind == "quoted" else value, position))
        position = _BLANK.match(text, match.end()).end()  # type: ignore[union-attr]
    return [*tokens, GateToken("end", "", len(text))]


def syntax_error(text: str, position: int, problem: str) -> BadValueError:
    """The error for a syntax error at a position."""
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
    return BadValueError(f"cannot read the gate {shown!r}: at character {position + 1} {problem}")


# --- the kinds of gates, as dataclasses ------------------------------------------------------------------------------

Operator = Literal[">=", ">", "<=", "<"]
GateStatus = Literal["passed", "failed", "inconclusive"]
IntervalPart = Literal["low", "high", "point"]
"""The number that decides: an end of the 95 % interval, or the value itself."""


@dataclass(frozen=True, slots=True)
class SliceFilter:
    """One group of a slice: ``labels.lang = de``."""

    slice: str
    group: str

    def __str__(self) -> str:
        return f"{self.slice} = {self.group}"


@dataclass(frozen=True, slots=True)
class ValueGate:
    """``recall@5 >= 0.80``, ``low(recall@5) >= 0.75``, ``recall@5 where labels.lang = de >= 0.7``."""

    text: str
    metric: str
    operator: Operator
    threshold: float
    part: IntervalPart = "point"
    where: SliceFilter | None = None


@dataclass(frozen=True, slots=True)
class DeltaGate:
    """``delta(ndcg@10) > -0.01``: the difference to the baseline; without a part, its whole interval decides."""

    text: str
    metric: str
    operator: Operator
    threshold: float
    part: IntervalPart | None = None


@dataclass(frozen=True, slots=True)
class VerdictGate:
    """``better(recall@5)``, ``not worse(token_f1, by=0.02)``: the verdict of a comparison, or a margin to keep."""

    text: str
    metric: str
    expected: Literal["better", "not worse"]
    by: float | None = None


@dataclass(frozen=True, slots=True)
class CoverageGate:
    """``coverage >= 0.99``, ``coverage(recall@5) >= 0.9``: the required proportion of scored answers."""

    text: str
    metric: str | None
    """``None``: every metric that a gate names."""
    operator: Operator
    threshold: float


@dataclass(frozen=True, slots=True)
class GuardrailsGate:
    """``guardrails``: all guardrails of the plan are within their margins."""

    text: str
    metric: str | None = None


Gate = ValueGate | DeltaGate | VerdictGate | CoverageGate | GuardrailsGate


def needs_baseline(gate: Gate) -> bool:
    """Whether the gate needs a comparison with a baseline."""
    return isinstance(gate, DeltaGate | VerdictGate | GuardrailsGate)


def goes_by_interval(gate: Gate) -> bool:
    """Whether the interval of a difference decides."""
    if isinstance(gate, VerdictGate):
        return gate.by is not None
    return isinstance(gate, DeltaGate) and gate.part != "point"


# --- the parser: a gate from its text, or a syntax error with its position -------------------------------------------

SIGNS: tuple[Operator, ...] = get_args(Operator)
PARTS: tuple[IntervalPart, ...] = get_args(IntervalPart)
FUNCTIONS = (*PARTS, "better", "coverage", "delta", "not worse")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SIGN_TYPOS = {"=>": ">=", "=<": "<="}


def parse_gate(text: str | Gate) -> Gate:
    """Parse a gate, unless it is one; a ``BadValueError`` gives the position and the reason of a syntax error."""
    if isinstance(text, Gate):
        return text
    if not isinstance(text, str):
        raise BadTypeError(f"a gate is a string such as 'recall@5 >= 0.80', not {text!r}")
    if not text.strip():
        raise BadValueError("a gate is a string such as 'recall@5 >= 0.80'; this one is empty")
    return _Parser(text.strip()).gate()


def parse_gates(texts: Iterable[str | Gate]) -> list[Gate]:
    """Parse gates; ``Gate`` objects are kept. Two gates on the same coverage are an error."""
    gates = [parse_gate(text) for text in texts]
    covered: dict[str | None, str] = {}
    for gate in gates:
        if isinstance(gate, CoverageGate):
            if gate.metric in covered:
                raise BadValueError(
                    f"two gates set the same coverage, {covered[gate.metric]!r} and {gate.text!r}; remove one"
                )
            covered[gate.metric] = gate.text
    return gates


class _Parser:
    """Recursive descent parser of one gate."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._position = 0

    # --- the grammar -------------------------------------------------------------------------------------------------

    def gate(self) -> Gate:
        parsed = self._statement()
        more = "; write each condition as a gate of its own" if self._current.text in ("and", "or", ",") else ""
        self._require("end", "", f"nothing after {self._text[: self._current.start].strip()!r}", more)
        return parsed

    def _statement(self) -> Gate:
        if self._is_word("not") and self._tokens[self._position + 1].kind == "word":
            self._next()
            self._require("word", "worse", "'worse', as in not worse(token_f1, by=0.02)")
            return self._verdict("not worse")
        if self._is_function("worse"):
            raise syntax_error(self._text, self._current.start, "worse(...) is not a gate; write not worse(...)")
        if self._is_function("better"):
            self._next()
            return self._verdict("better")
        if self._is_word("coverage"):
            return self._coverage()
        if self._is_word("guardrails") and self._tokens[self._position + 1].kind == "end":
            self._next()
            return GuardrailsGate(self._text)
        for part in PARTS:
            if self._is_function(part):
                self._next()
                self._open()
                return self._comparison(part, inner=True)
        return self._comparison(None, inner=False)

    def _comparison(self, part: IntervalPart | None, *, inner: bool) -> ValueGate | DeltaGate:
        """A gate on a value or a difference; ``inner``: the parentheses of a part are still open."""
        where = None
        is_delta = self._is_function("delta")
        if is_delta:
            self._next()
            self._open()
            metric = self._metric()
            self._close("delta(...)")
        else:
            metric = self._metric()
            where = self._where()
        if inner:
            self._close(f"{part}(...)")
        sign, threshold = self._condition()
        if is_delta:
            return DeltaGate(self._text, metric, sign, threshold, part)
        return ValueGate(self._text, metric, sign, threshold, part=part or "point", where=where)

    def _verdict(self, expected: str) -> VerdictGate:
        self._open()
        metric = self._metric()
        by = None
        if self._current.text == "," and self._current.kind == "mark":
            self._next()
            self._require("word", "by", "'by=' and a number")
            self._require("sign", "=", "'=' and a number")
            start = self._current
            by = self._number()
            if by < 0:
                raise syntax_error(self._text, start.start, f"'by' must be at least 0; found {start}")
        self._close(f"{expected}(...)")
        return VerdictGate(self._text, metric, "better" if expected == "better" else "not worse", by)

    def _coverage(self) -> CoverageGate:
        self._next()
        metric = None
        if self._current.text == "(" and self._current.kind == "mark":
            self._open()
            metric = self._metric()
            self._close("coverage(...)")
        start = self._current
        sign, threshold = self._condition()
        if sign not in (">=", ">"):
            raise syntax_error(
                self._text, start.start, f"a coverage gate sets a minimum: expected >= or >, found {start}"
            )
        if not 0 <= threshold <= 1:
            raise syntax_error(self._text, start.start, f"a coverage is a proportion from 0 to 1, not {threshold:g}")
        return CoverageGate(self._text, metric, sign, threshold)

    def _where(self) -> SliceFilter | None:
        if not self._is_word("where"):
            return None
        self._next()
        name = self._require("word", None, "a slice such as labels.lang")
        if self._current.text not in ("=", "=="):
            raise self._error("expected '=' and a group, as in where labels.lang = de")
        self._next()
        if self._current.kind not in ("word", "quoted"):
            raise self._error("expected the name of a group")
        return SliceFilter(name.text, self._next().text)

    def _condition(self) -> tuple[Operator, float]:
        sign = self._current
        if sign.kind != "sign" or sign.text not in SIGNS:
            raise self._error(f"expected {', '.join(SIGNS[:-1])} or {SIGNS[-1]}", self._hint_for_sign(sign))
        self._next()
        return next(operator for operator in SIGNS if operator == sign.text), self._number()

    def _number(self) -> float:
        token = self._current
        if token.kind != "word" or not _NUMBER.fullmatch(token.text):
            bare = token.text.removesuffix("%")
            percent = token.text.endswith("%") and _NUMBER.fullmatch(bare)
            raise self._error("expected a number", f"; write {float(bare) / 100:g}" if percent else "")
        value = float(token.text)
        if not math.isfinite(value):
            raise self._error("expected a finite number")
        self._next()
        return value

    def _metric(self) -> str:
        token, after = self._current, self._tokens[min(self._position + 1, len(self._tokens) - 1)]
        if token.kind == "word" and after.kind == "mark" and after.text == "(":
            if token.text in (*FUNCTIONS, "worse"):
                raise self._error("expected a metric", "(")
            known = f"; the functions are {', '.join(FUNCTIONS)}"
            raise syntax_error(
                self._text,
                token.start,
                f"there is no function {token}{did_you_mean(token.text, FUNCTIONS, otherwise=known)}",
            )
        if token.kind == "word" and _NUMBER.fullmatch(token.text):
            raise self._error("expected a metric", "; the metric comes first, as in recall@5 >= 0.8")
        if token.kind not in ("word", "quoted") or not token.text.strip():
            raise self._error("expected a metric")
        return self._next().text

    # --- tokens ------------------------------------------------------------------------------------------------------

    @property
    def _current(self) -> GateToken:
        return self._tokens[self._position]

    def _next(self) -> GateToken:
        token = self._current
        self._position += token.kind != "end"
        return token

    def _is_word(self, text: str) -> bool:
        return self._current.kind == "word" and self._current.text == text

    def _is_function(self, name: str) -> bool:
        return self._is_word(name) and self._tokens[self._position + 1].text == "("

    def _open(self) -> None:
        self._require("mark", "(", "'('")

    def _close(self, what: str) -> None:
        hint = ""
        if self._current.kind == "end":  # an unquoted string in a YAML list [a, b] ends at the comma
            hint = "; a gate with a comma needs quotes inside a list in brackets"
        self._require("mark", ")", f"')' to close {what}", hint)

    def _require(self, kind: str, text: str | None, expectation: str, hint: str = "") -> GateToken:
        if self._current.kind != kind or (text is not None and self._current.text != text):
            raise self._error(f"expected {expectation}", hint)
        return self._next()

    def _error(self, problem: str, hint: str = "") -> BadValueError:
        return syntax_error(self._text, self._current.start, f"{problem}, found {self._current}{hint}")

    def _hint_for_sign(self, sign: GateToken) -> str:
        if sign.text in _SIGN_TYPOS:
            return f"; did you mean {_SIGN_TYPOS[sign.text]}?"
        if sign.text in ("=", "==", "!="):
            return "; measured numbers are hardly ever equal: use >= or <="
        return ""


# --- thresholds: comparison with numbers and intervals, and its wording ----------------------------------------------

_TOLERANCE = 1e-12
"""Numbers closer than this are equal: 0.79 - 0.80 is -0.01, despite rounding."""
_PASSED_WORDS: dict[Operator, str] = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_FAILED_WORDS: dict[Operator, str] = {">=": "below", ">": "not above", "<=": "above", "<": "not below"}


def holds(value: float, operator: Operator, threshold: float) -> bool:
    """Whether ``value operator threshold``, up to rounding."""
    if is_close(value, threshold):
        return operator in (">=", "<=")
    return value > threshold if operator in (">", ">=") else value < threshold


def status_of(ends: Iterable[float], operator: Operator, threshold: float, shift: float = 0.0) -> GateStatus:
    """``passed`` where all ends of an interval satisfy the condition, ``failed`` where none does.

    Otherwise it is ``inconclusive``. A value is an interval with one end. ``shift`` is added to every end.
    """
    satisfied = [holds(end + shift, operator, threshold) for end in ends]
    return "passed" if all(satisfied) else "inconclusive" if any(satisfied) else "failed"


def describe_relation(value: float, operator: Operator, threshold: float, digits: int = 4) -> str:
    """A value and its relation to a threshold: ``0.7833, below 0.8``."""
    words = _PASSED_WORDS if holds(value, operator, threshold) else _FAILED_WORDS
    return f"{format_number(value, threshold, digits)}, {words[operator]} {threshold:g}"


def format_number(value: float, other: float | None = None, digits: int = 4) -> str:
    """A number with so many decimals, or with as many as it takes to differ from ``other``."""
    short = format_value(value, digits)
    looks_equal = other is not None and float(short) == other and not is_close(value, other)
    return f"{value:.12g}" if looks_equal else short


def format_interval(interval: tuple[float, float], digits: int = 4) -> str:
    """An interval as text."""
    return f"95 % interval {interval_ends(interval, digits)}"


def interval_ends(interval: tuple[float, float], digits: int = 4) -> str:
    """The ends of an interval as text."""
    return f"{format_value(interval[0], digits)} to {format_value(interval[1], digits)}"


def is_close(value: float, other: float) -> bool:
    """Whether two numbers are equal up to rounding."""
    return abs(value - other) <= _TOLERANCE * max(1.0, abs(other))


# --- the metrics and slices that gates name --------------------------------------------------------------------------


def canonical_name(name: str, known: Collection[str]) -> str | None:
    """The metric in ``known`` that a name or an alias of it (``nDCG@10``) stands for; ``None`` if there is none."""
    if name in known:
        return name
    from ..core.registry import metric

    try:
        ours = metric(name).name
    except AueporaError:
        return None
    return ours if ours in known else None


def resolve_names(gates: Iterable[Gate], known: Collection[str]) -> list[Gate]:
    """The gates with canonical metric names; a name that is not in ``known`` stays unchanged."""
    resolved: list[Gate] = []
    for gate in gates:
        found = None if gate.metric is None else canonical_name(gate.metric, known)
        resolved.append(gate if found is None else replace(gate, metric=found))
    return resolved


def require_known_names(
    gates: Collection[Gate], known: Collection[str], *, slices: Collection[str] | None = None, otherwise: str = ""
) -> list[Gate]:
    """The gates with canonical metric names; a name that is not in ``known`` is a ``BadValueError``.

    ``otherwise`` ends the error where no name is similar. Where ``slices`` are given, gates may name only these.
    """
    for gate in gates:
        if gate.metric is not None and canonical_name(gate.metric, known) is None:
            listing = f"; there are {', '.join(known)}{otherwise}" if known else otherwise
            raise BadValueError(
                f"the gate {gate.text!r} names '{gate.metric}', which is not among the metrics"
                f"{did_you_mean(gate.metric, known, otherwise=listing)}"
            )
        where = gate.where if isinstance(gate, ValueGate) else None
        if where is not None and slices is not None and where.slice not in slices:
            listing = f"; there are {', '.join(slices)}" if slices else "; there is none"
            raise BadValueError(
                f"the gate {gate.text!r} names the slice '{where.slice}', which is not among the slices"
                f"{did_you_mean(where.slice, slices, otherwise=listing)}"
            )
    return resolve_names(gates, known)


def require_quality_gates(gates: Iterable[Gate], signatures: Mapping[str, str]) -> None:
    """Raise for a gate on the cost of a right answer without one on what is right: refusing would pass it."""
    gated = [signatures.get(gate.metric or "", "") for gate in gates if not isinstance(gate, CoverageGate)]
    for gate in gates:
        of = _COST_OF_CORRECT.match(signatures.get(gate.metric or "", ""))
        if of is None or isinstance(gate, CoverageGate):
            continue
        names = [
            re.search(r"\|of:([^|]*)", signature) for signature in gated if not signature.startswith("cost_per_correct")
        ]
        known = {signature.partition("|")[0] for signature in gated} | {
            found[1] for found in names if found is not None
        }
        if of[1] not in known:
            raise BadValueError(
                f"the gate {gate.text!r} alone says nothing: refusing the dear half of all questions makes "
                f"'{gate.metric}' better while fewer answers are right; add a gate on '{of[1]}'"
            )


_COST_OF_CORRECT = re.compile(r"cost_per_correct\|of:([^|]*)")
