"""Every error of this library.

AueporaError
├── AlignmentError           (ValueError, AssertionError)  samples and outputs do not line up
├── BadValueError            (ValueError)                  an invalid value: k < 1, a NaN score, ...
│   ├── BadTypeError         (TypeError)                   ... or one of the wrong type: an id that is a number
│   └── BadOptionError                                     ... of an option of a metric, which it names
├── MissingFieldError        (ValueError)                  no sample has the annotation a metric needs
├── DuplicateIdError         (ValueError)                  an id that must be unique occurs twice
├── MetricDefinitionError    (TypeError)                   a Metric subclass that cannot work
├── UnknownMetricError       (LookupError, ValueError)     no metric of that name
├── UnknownOptionError       (TypeError, ValueError)       the metric has no such option
├── UnknownConventionError   (LookupError, ValueError)     no preset or value of that name
├── SignatureMismatchError   (ValueError)                  two values with different definitions
├── WorkerError              (RuntimeError)                a scoring process cannot be used, or died
├── DataFileError            (ValueError)                  a file, line and field that cannot be read
│   └── PlanError                                          ... of a plan: an invalid key or value
├── ConflictError            (RuntimeError)                another person or process was first
├── SystemCallError          (RuntimeError)                the system under evaluation gave no answer, and why
├── JudgeError               (RuntimeError)                a judge gave no judgement, and why
├── StoreError               (RuntimeError)                a store that cannot be opened, read or written
├── UnknownRunError          (LookupError, ValueError)     no run of that name, or more than one
├── UnknownCorrectionError   (LookupError, ValueError)     no proposal of a gold correction with that id
├── UnknownBatchError        (LookupError, ValueError)     no batch of labels, or no item of it, at that address
└── MissingDependencyError   (ImportError)                 an optional package is not installed

AueporaWarning (UserWarning)                               the result is valid, but worth a look
"""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = [
    "AlignmentError",
    "AueporaError",
    "AueporaWarning",
    "BadOptionError",
    "BadTypeError",
    "BadValueError",
    "ConflictError",
    "DataFileError",
    "DuplicateIdError",
    "JudgeError",
    "MetricDefinitionError",
    "MissingDependencyError",
    "MissingFieldError",
    "PlanError",
    "SignatureMismatchError",
    "StoreError",
    "SystemCallError",
    "UnknownBatchError",
    "UnknownConventionError",
    "UnknownCorrectionError",
    "UnknownMetricError",
    "UnknownOptionError",
    "UnknownRunError",
    "WorkerError",
    "did_you_mean",
]


_LONGEST_NAME = 500


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A clause that suggests the most similar known names, or ``otherwise`` where none is similar."""
    from difflib import SequenceMatcher  # only mistakes pay for it

    if len(name) > _LONGEST_NAME:  # not a misspelling, and the search would be slow
        return otherwise
    likeness = {choice: SequenceMatcher(None, name.lower(), choice.lower()).ratio() for choice in sorted(known)}
    for choice in likeness:
        if choice.lower().startswith(f"{name.lower()}_"):
            likeness[choice] = 1.0  # the first part of a name is a better match than another name of the same length
    best = max(likeness.values(), default=0.0)
    # Only names about as similar as the best one.
    near = [choice for choice, ratio in likeness.items() if ratio >= max(0.6, best - 0.03)][:3]
    if near:
        return f"; did you mean {' or '.join(repr(n) for n in near)}?"
    return otherwise


class AueporaError(Exception):
    """Base of every error raised on purpose by this library.

    Example:
        >>> try:
        ...     evaluate(samples, outputs[:1], ["recall@1"])
        ... except AueporaError as error:
        ...     print(error)
        2 samples but 1 outputs: they must be equally many, in the same order
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # The default rebuilds from the message alone, which does not fit constructors that take structured arguments;
        # errors must survive the way back from a worker process.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[AueporaError], args: tuple[Any, ...], state: dict[str, Any]) -> AueporaError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class AueporaWarning(UserWarning):
    """Something worth knowing that does not stop the evaluation.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", AueporaWarning)  # stop at a warning
        ...     evaluate(samples, outputs, ["recall@1"])[0].value
        0.5
    """


class AlignmentError(AueporaError, ValueError, AssertionError):
    """Samples and outputs differ in number."""

    def __init__(self, num_samples: int, num_outputs: int, *, what: tuple[str, str] = ("samples", "outputs")) -> None:
        super().__init__(
            f"{num_samples} {what[0]} but {num_outputs} {what[1]}: they must be equally many, in the same order"
        )

    @classmethod
    def check(cls, num_samples: int, num_outputs: int, *, what: tuple[str, str] = ("samples", "outputs")) -> None:
        """Raise unless both numbers are equal."""
        if num_samples != num_outputs:
            raise cls(num_samples, num_outputs, what=what)


class BadValueError(AueporaError, ValueError):
    """An invalid value."""

    option: str = ""
    """The option that has the value, where it is known."""


class BadTypeError(BadValueError, TypeError):
    """A value of the wrong type."""


class BadOptionError(BadValueError):
    """An invalid value of an option; ``option`` is its path, such as ``examples[0].score``."""

    def __init__(self, option: str, problem: str, metric: str = "") -> None:
        self.option, self.problem, self.metric = option, problem, metric
        super().__init__(f"metric '{metric}': {option}: {problem}" if metric else f"{option}: {problem}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.option, self.problem, self.metric)


class MissingFieldError(AueporaError, ValueError):
    """No sample carries an annotation that a metric needs."""

    def __init__(self, field: str, metric: str) -> None:
        self.field, self.metric = field, metric
        super().__init__(
            f"Dataset missing required field '{field}' for metric '{metric}'. "
            f"Annotate at least one sample with '{field}', or leave the metric out."
        )


class DuplicateIdError(AueporaError, ValueError):
    """An id that must be unique occurs twice; ``path`` and ``line`` say where, if it is in a file."""

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path, self.line = None if path is None else str(path), line
        super().__init__(message)


class MetricDefinitionError(AueporaError, TypeError):
    """A metric class that cannot work as written."""


class UnknownMetricError(AueporaError, LookupError, ValueError):
    """No metric of that name is registered."""

    def __init__(self, name: str, known: Iterable[str], *, hint: str = "") -> None:
        self.name = name
        hint = hint or did_you_mean(name, known, otherwise="; `auepora metrics` lists them all")
        super().__init__(f"unknown metric '{name}'{hint}")


class UnknownOptionError(AueporaError, TypeError, ValueError):
    """A metric was given an option it does not have."""

    def __init__(self, metric: str, option: str, known: Iterable[str], conventions: Iterable[str] = ()) -> None:
        self.option = option
        names, conventions = sorted(known), sorted(conventions)
        listing = f"; its options are: {', '.join(names)}" if names else "; it has no options"
        if conventions:
            listing += f"; and its conventions: {', '.join(conventions)}"
        hint = did_you_mean(option, [*names, *conventions], otherwise=listing)
        super().__init__(f"metric '{metric}' has no option '{option}'{hint}")


class UnknownConventionError(AueporaError, LookupError, ValueError):
    """No convention preset, or no value of a convention, of that name."""

    def __init__(self, what: str, value: object, known: Iterable[str]) -> None:
        names = list(known)
        super().__init__(f"unknown {what} {value!r}; choose one of: {', '.join(names)}")


class SignatureMismatchError(AueporaError, ValueError):
    """Two values with different signatures cannot be compared."""

    def __init__(self, first: str, second: str, fields: Iterable[str]) -> None:
        self.fields = tuple(fields)
        super().__init__(f"'{first}' and '{second}' were computed differently (in: {', '.join(self.fields)})")


class WorkerError(AueporaError, RuntimeError):
    """A scoring process cannot be used, or died."""


class DataFileError(AueporaError, ValueError):
    """Something in a file cannot be read; names the file, line and field."""

    def __init__(self, path: str | Path, line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = str(path), line, problem
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}")


class PlanError(DataFileError):
    """An invalid plan; names the file, line and key."""

    def __init__(self, path: str | Path, line: int | None, key: str, problem: str) -> None:
        self.key = key
        super().__init__(path, line, f"{key}: {problem}" if key else problem)


class ConflictError(AueporaError, RuntimeError):
    """Something cannot be written because of what another person or process wrote before."""


class SystemCallError(AueporaError, RuntimeError):
    """The system under evaluation gave no answer. A system may raise it with a reason, and whether a retry may help.

    It is recorded as ``reason: message``; the reason is one word in lower case with underscores, and is counted.
    """

    def __init__(
        self, reason: str, message: str = "", *, retry: bool = False, retry_after: float | None = None
    ) -> None:
        self.reason, self.message, self.retry, self.retry_after = reason, message, retry, retry_after
        super().__init__(f"{reason}: {message}" if message else reason)


class JudgeError(AueporaError, RuntimeError):
    """A judge gave no judgement that can be used. A critic raises it with a reason, and whether a retry may help.

    The reason is one word in lower case with underscores; it is counted, and the sample is a failed measurement.
    """

    def __init__(
        self,
        reason: str,
        message: str = "",
        *,
        raw: str | None = None,
        retry: bool = False,
        retry_after: float | None = None,
        lasting: bool = False,
        tokens: tuple[int, int] = (0, 0),
        calls: int = 1,
    ) -> None:
        """``raw`` is the reply. A ``lasting`` failure, such as a wrong key, applies to every further request.

        ``tokens`` (prompt, completion) were used nevertheless, in this number of ``calls``.
        """
        self.reason, self.message, self.raw, self.tokens, self.calls = reason, message, raw, tokens, calls
        self.retry, self.retry_after, self.lasting = retry, retry_after, lasting
        super().__init__(f"{reason}: {message}" if message else reason)


class StoreError(AueporaError, RuntimeError):
    """A store of runs cannot be opened, read or written."""

    def __init__(self, store: str, problem: str) -> None:
        self.store, self.problem = store, problem
        super().__init__(f"store {store}: {problem}")

    @property
    def is_locked(self) -> bool:
        """Whether another process has locked it, so that a second try may work."""
        return self.problem.startswith("is locked by another process")


class UnknownRunError(AueporaError, LookupError, ValueError):
    """No run has that name, or more than one does."""


class UnknownCorrectionError(AueporaError, LookupError, ValueError):
    """There is no proposal with that id."""


class UnknownBatchError(AueporaError, LookupError, ValueError):
    """No batch of labels has that id, or it has no such item."""


class MissingDependencyError(AueporaError, ImportError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, *, purpose: str, install: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}': pip install {install}")

    @classmethod
    def import_module(cls, name: str, *, package: str = "", purpose: str, install: str) -> Any:
        """Import a module; raise where its package, by default of the same name, is not installed."""
        try:
            return import_module(name)
        except ImportError as error:
            raise cls(package or name, purpose=purpose, install=install) from error
