"""Scores: the outcome of each sample under one metric. Scored, skipped and failed never mix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from ..errors import BadTypeError, BadValueError

__all__ = ["AnswerSpans", "MarkedSpan", "Outcomes", "Score", "Scores", "Status", "to_reason"]

NOT_JUDGED = "not_judged"
"""The reason for which samples are skipped that a judge was not asked about."""
NO_TEXT, WORDS, CHARACTERS = 0, 1, 2
"""How the texts of a sample were cut into tokens."""
_REASON = re.compile(r"[a-z_]+")


def to_reason(text: str) -> str:
    """A string as a reason: lower-case letters and underscores only."""
    return re.sub(r"[^a-z]+", "_", text.lower())


class Status(IntEnum):
    """The four outcomes of a (sample, metric) pair."""

    SCORED = 0
    SKIPPED = 1
    """The question does not apply to this sample."""
    SYSTEM_FAILED = 2
    """The system under evaluation gave no answer."""
    MEASURE_FAILED = 3
    """Our own measurement should have worked and did not."""


@dataclass(frozen=True, slots=True)
class Score:
    """One sample's outcome: ``Score(0.5)``, ``Score.skip(reason)`` or ``Score.fail(reason)``.

    Example:
        >>> Score(0.5).value, Score.skip("no_reference").reason, Score.fail("judge_unparseable").status.name
        (0.5, 'no_reference', 'MEASURE_FAILED')
    """

    value: float | None
    status: Status = Status.SCORED
    reason: str = ""

    def __post_init__(self) -> None:
        if self.status is Status.SCORED:
            if isinstance(self.value, (bool, np.bool_)):
                object.__setattr__(self, "value", float(self.value))
            if not isinstance(self.value, (int, float, np.number)):
                raise BadTypeError(
                    f"Score({self.value!r}): a score is a number; for anything else use Score.skip or Score.fail"
                )
        elif not _REASON.fullmatch(self.reason):
            raise BadValueError(
                f"reason {self.reason!r}: write it in lower case with underscores, such as 'empty_gold'"
            )

    @classmethod
    def skip(cls, reason: str) -> Score:
        """The question does not apply to this sample."""
        return cls(None, Status.SKIPPED, reason)

    @classmethod
    def fail(cls, reason: str) -> Score:
        """The measurement should have worked and did not."""
        return cls(None, Status.MEASURE_FAILED, reason)


class MarkedSpan(NamedTuple):
    """A part of an answer that a metric marks."""

    start: int
    """The first character, counted from 0."""
    end: int
    """The character after the last one."""
    probability: float
    repeat: int = 0
    """The repeat of the run that the answer belongs to."""


class AnswerSpans(NamedTuple):
    """The marked parts of the answer to one sample, as a key of ``Scores``; they are stored and shown with it."""

    spans: tuple[MarkedSpan, ...] = ()

    def of_repeat(self, repeat: int) -> tuple[MarkedSpan, ...]:
        """The spans in the answer of one repeat."""
        return tuple(span for span in self.spans if span.repeat == repeat)


@dataclass(frozen=True, slots=True, eq=False)
class Scores(Sequence[float | None]):
    """The outcomes of a batch of samples under one metric, as columns.

    ``values[i]`` is the number that enters the reducer, or NaN where sample ``i`` does not count: a system failure that
    counts at the worst value has that value here and ``SYSTEM_FAILED`` in ``status``. Iterating gives ``float | None``.

    Example:
        >>> scores = Scores.from_list([Score(1.0), Score.skip("no_reference")])
        >>> list(scores), list(scores.outcomes)
        ([1.0, None], ['scored', 'skipped:no_reference'])
    """

    values: npt.NDArray[np.float64]
    status: npt.NDArray[np.uint8]
    reason_codes: npt.NDArray[np.int16]
    """Per sample an index into ``reason_names``; 0 means no reason."""
    reason_names: tuple[str, ...] = ("",)
    stats: npt.NDArray[np.float64] | None = None
    """Further statistics (n x w) for reducers that are not means of ``values``."""
    keys: tuple[Any, ...] | None = None
    """Per sample further data: the key by which a family metric pairs samples, or the spans marked in an answer."""
    repeats: tuple[Scores, ...] | None = None
    """The scores of each repeat, where ``values`` are means over repeats and the reducer is not a mean."""
    cuts: npt.NDArray[np.int8] | None = None
    """Per sample how its texts were cut into tokens, where a metric decides that by their script: ``NO_TEXT``,
    ``WORDS`` or ``CHARACTERS``. ``None`` where all are cut into words."""

    @classmethod
    def of(
        cls,
        values: npt.ArrayLike,
        *,
        skip: Mapping[str, npt.NDArray[np.bool_]] | None = None,
        fail: Mapping[str, npt.NDArray[np.bool_]] | None = None,
        stats: npt.NDArray[np.float64] | None = None,
        keys: Iterable[Any] | None = None,
    ) -> Scores:
        """Columns from values and masks. Where several masks cover a sample, a skip wins, and the first of its kind.

        A value that is not a finite number, and not masked, is a failure of the measurement (``not_a_number``).
        """
        column = np.array(values, dtype=np.float64)
        n = len(column)
        status = np.zeros(n, dtype=np.uint8)
        codes = np.zeros(n, dtype=np.int16)
        names = [""]
        for outcome, masks in ((Status.SKIPPED, skip or {}), (Status.MEASURE_FAILED, fail or {})):
            for reason, mask in masks.items():
                fresh = mask & (status == Status.SCORED)
                if fresh.any():
                    names.append(reason)
                    status[fresh], codes[fresh] = outcome, len(names) - 1
        column[status != Status.SCORED] = np.nan
        return cls(
            column,
            status,
            reason_codes=codes,
            reason_names=tuple(names),
            stats=stats,
            keys=None if keys is None else tuple(keys),
        )._failing_nan()

    @classmethod
    def from_list(cls, scores: Sequence[Score]) -> Scores:
        """Columns from one ``Score`` per sample."""
        return scores_with_reasons(scores, ())

    def _failing_nan(self) -> Scores:
        broken = ~np.isfinite(self.values) & (self.status == Status.SCORED)
        if not broken.any():
            return self
        return self.replaced(broken, Status.MEASURE_FAILED, "not_a_number", np.nan)

    @classmethod
    def concat(cls, parts: Sequence[Scores]) -> Scores:
        """One column set from consecutive batches, in their order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of([])
        names: dict[str, int] = {"": 0}
        codes = []
        for part in parts:
            renumber = [names.setdefault(name, len(names)) for name in part.reason_names]
            same = renumber == list(range(len(renumber)))
            codes.append(part.reason_codes if same else np.array(renumber, dtype=np.int16)[part.reason_codes])
        stats, keys, cuts = None, None, None
        wide = [part.stats for part in parts if part.stats is not None]
        keyed = [part.keys for part in parts if part.keys is not None]
        without = [part for part in parts if (wide and part.stats is None) or (keyed and part.keys is None)]
        if not all(part.lost for part in without):
            raise BadValueError("some parts have statistics or keys and others have none: they cannot be joined")
        if wide:
            width = wide[0].shape[1]
            stats = np.concatenate(
                [np.full((len(part), width), np.nan) if part.stats is None else part.stats for part in parts]
            )
        if any(part.cuts is not None for part in parts):
            cuts = np.concatenate([part.known_cuts for part in parts])
        if keyed:
            keys = tuple(chain.from_iterable(part.keys or (None,) * len(part) for part in parts))
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.status for part in parts]),
            reason_codes=np.concatenate(codes),
            reason_names=tuple(names),
            stats=stats,
            keys=keys,
            repeats=cls._concat_repeats([part.repeats for part in parts]),
            cuts=cuts,
        )

    @property
    def known_cuts(self) -> npt.NDArray[np.int8]:
        """The column ``cuts``, also where all samples are cut into words."""
        if self.cuts is not None:
            return self.cuts
        cut = NO_TEXT if self.lost else WORDS
        return np.full(len(self), cut, np.int8)

    def count_cuts(self) -> Counter[int]:
        """How many samples were cut into words, and how many into characters; skipped samples do not count."""
        counts = np.bincount(self.known_cuts[self.status != Status.SKIPPED], minlength=CHARACTERS + 1)
        return Counter({cut: int(counts[cut]) for cut in (WORDS, CHARACTERS)})

    @classmethod
    def _concat_repeats(cls, each: Sequence[tuple[Scores, ...] | None]) -> tuple[Scores, ...] | None:
        repeated = [passes for passes in each if passes is not None]
        if not repeated:
            return None
        if len(repeated) < len(each) or len({len(passes) for passes in repeated}) > 1:
            raise BadValueError("the parts were not repeated equally often: they cannot be joined")
        return tuple(cls.concat(parts) for parts in zip(*repeated, strict=True))

    @classmethod
    def woven(cls, *parts: tuple[npt.NDArray[np.intp], Scores]) -> Scores:
        """Outcomes from parts, each with the rows its outcomes belong to."""
        places = np.concatenate([place for place, _ in parts])
        return cls.concat([part for _, part in parts]).take(np.argsort(places, kind="stable"))

    def take(self, indices: npt.ArrayLike) -> Scores:
        """The outcomes of some samples, in the given order; a Boolean mask works too."""
        index = np.asarray(indices)
        if index.dtype == np.bool_:
            index = np.flatnonzero(index)
        index = index.astype(np.intp)
        keys = None if self.keys is None else tuple(self.keys[i] for i in index)
        stats = None if self.stats is None else self.stats[index]
        repeats = None if self.repeats is None else tuple(repeat.take(index) for repeat in self.repeats)
        cuts = None if self.cuts is None else self.cuts[index]
        return Scores(
            self.values[index],
            self.status[index],
            reason_codes=self.reason_codes[index],
            reason_names=self.reason_names,
            stats=stats,
            keys=keys,
            repeats=repeats,
            cuts=cuts,
        )

    def replaced(
        self,
        mask: npt.NDArray[np.bool_],
        status: Status,
        reason: str,
        value: float | npt.NDArray[np.float64],
        stats: Sequence[float] | None = None,
    ) -> Scores:
        """A copy in which the masked samples have another outcome; ``value`` is one for all, or a column.

        Where there are repeats, all of theirs do.
        """
        names = self.reason_names if reason in self.reason_names else (*self.reason_names, reason)
        wide = self.stats
        if wide is not None and stats is not None:
            # A statistic that does not apply to a sample (NaN) still does not apply when the system failed; one that
            # would be replaced by NaN is kept.
            wide, worst = wide.copy(), np.asarray(stats, dtype=np.float64)
            wide[mask] = np.where(np.isnan(wide[mask]) | np.isnan(worst), wide[mask], worst)
        values, codes, states = self.values.copy(), self.reason_codes.copy(), self.status.copy()
        values[mask] = value[mask] if isinstance(value, np.ndarray) else value
        codes[mask], states[mask] = names.index(reason), status
        repeats = self.repeats
        if repeats is not None:
            repeats = tuple(repeat.replaced(mask, status, reason, value, stats) for repeat in repeats)
        return Scores(
            values,
            states,
            reason_codes=codes,
            reason_names=names,
            stats=wide,
            keys=self.keys,
            repeats=repeats,
            cuts=self.cuts,
        )

    def with_values(self, values: npt.NDArray[np.float64], stats: npt.NDArray[np.float64] | None = None) -> Scores:
        """The same outcomes with other (finite) values, for metrics with the same skips. Columns are not copied."""
        if self.status.any():
            values = np.where(self.status == Status.SCORED, values, np.nan)
        return Scores(values, self.status, self.reason_codes, self.reason_names, stats, cuts=self.cuts)

    def with_reason(self, reason: str) -> npt.NDArray[np.bool_]:
        """Which samples have this reason for their outcome."""
        if reason not in self.reason_names:
            return np.zeros(len(self), dtype=np.bool_)
        return np.equal(self.reason_codes, self.reason_names.index(reason))

    @property
    def lost(self) -> bool:
        """Whether all samples are failed measurements, as after the death of a worker: then nothing else is known."""
        return bool((self.status == Status.MEASURE_FAILED).all())

    @property
    def counted(self) -> npt.NDArray[np.bool_]:
        """Which samples count."""
        return ~np.isnan(self.values)

    @property
    def reasons(self) -> list[str | None]:
        """Per sample why it was not scored, ``None`` where it was."""
        names: list[str | None] = [None, *self.reason_names[1:]]
        return [names[code] for code in self.reason_codes]

    @property
    def outcomes(self) -> Outcomes:
        """Per sample ``scored``, ``skipped:<reason>``, ``system_failed:<reason>``, ``measure_failed:<reason>``."""
        return Outcomes(self)

    def tally(self) -> dict[tuple[Status, str], int]:
        """How many samples ended in each outcome."""
        if not self.status.any():
            return {(Status.SCORED, ""): len(self)} if len(self) else {}
        code = self.reason_codes.astype(np.int64) * len(Status) + self.status
        counts = np.bincount(code)
        return {
            (Status(int(c) % len(Status)), self.reason_names[int(c) // len(Status)]): int(counts[c])
            for c in np.flatnonzero(counts)
        }

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> float | None: ...
    @overload
    def __getitem__(self, index: slice) -> Scores: ...
    def __getitem__(self, index: int | slice) -> float | Scores | None:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        value = float(self.values[index])
        return None if value != value else value

    def __iter__(self) -> Iterator[float | None]:
        return (None if value != value else value for value in self.values.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scores):
            return NotImplemented
        same_stats = (self.stats is None) == (other.stats is None) and (
            self.stats is None or np.array_equal(self.stats, other.stats, equal_nan=True)  # type: ignore[arg-type]
        )
        return (
            np.array_equal(self.values, other.values, equal_nan=True)
            and np.array_equal(self.status, other.status)
            and self.reasons == other.reasons
            and same_stats
            and self.keys == other.keys
            and self.repeats == other.repeats
        )

    __hash__ = None  # type: ignore[assignment]


def marked_answers(results: Iterable[Any]) -> dict[str, tuple[AnswerSpans | None, ...]]:
    """By the name of a metric that marks parts of answers, the spans of each sample."""
    found = {}
    for result in results:
        keys = result.scores.keys if isinstance(result.scores, Scores) else None
        if keys is not None and any(isinstance(key, AnswerSpans) for key in keys):
            found[result.name] = tuple(key if isinstance(key, AnswerSpans) else None for key in keys)
    return found


def scores_with_reasons(scores: Sequence[Score], reasons: Iterable[str]) -> Scores:
    """Columns from one ``Score`` per sample. These ``reasons`` are numbered first, where they occur."""
    occurring = {score.reason for score in scores}
    names = {name: number for number, name in enumerate(["", *(name for name in reasons if name in occurring)])}
    codes = np.array([names.setdefault(s.reason, len(names)) for s in scores], dtype=np.int16)
    status = np.array([s.status for s in scores], dtype=np.uint8)
    values = np.array([s.value for s in scores], dtype=np.float64)  # NaN for None
    return Scores(values, status, codes, tuple(names))._failing_nan()


class Outcomes(Sequence[str]):
    """The outcomes of ``Scores`` as strings, created on access."""

    __slots__ = ("_scores",)

    def __init__(self, scores: Scores) -> None:
        self._scores = scores

    def __len__(self) -> int:
        return len(self._scores)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Outcomes: ...
    def __getitem__(self, index: int | slice) -> str | Outcomes:
        if isinstance(index, slice):
            return Outcomes(self._scores[index])
        status = Status(int(self._scores.status[index])).name.lower()
        reason = self._scores.reason_names[self._scores.reason_codes[index]]
        return f"{status}:{reason}" if reason else status

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Outcomes({list(self)!r})"
