"""What tests of asking share: tasks, one way to ask, and a book of what was delivered."""

from collections.abc import Callable
from typing import Any

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.systems.calls import CallSummary, Task, TaskOutput, call_system
from auepora_eval.systems.policy import CallPolicy
from helpers.builders import output, sample

KINDS: dict[str, dict[str, Any]] = {  # how calls are carried out: in the asking thread, in threads, in an event loop
    "inline": {},
    "threads": {"concurrency": 4, "timeout": 30.0},
    "loop": {"concurrency": 4, "timeout": 30.0},
}


def tasks(count: int) -> list[Task]:
    return [Task(n, sample(sample_id=f"q{n}")) for n in range(count)]


class Book(list[TaskOutput]):
    """Delivered answers, in the order of their arrival."""

    def by_position(self) -> list[SystemOutputs]:
        return [answer.output for answer in sorted(self, key=lambda answer: (answer.task.position, answer.task.repeat))]

    def errors(self) -> list[str | None]:
        return [output.error for output in self.by_position()]


def asked(system: object, wanted: Any, *, deliver: Any = None, **options: Any) -> tuple[CallSummary, Book]:
    """Ask for some tasks (a number, or tasks) and keep what is delivered."""
    book = Book()
    control = {name: options.pop(name) for name in ("stop", "total") if name in options}
    policy = CallPolicy(**{"backoff": 0.0, **options})
    given = tasks(wanted) if isinstance(wanted, int) else wanted
    return call_system(system, given, policy, deliver or book.extend, **control), book


def in_kind(kind: str, function: Callable[[EvaluationSample], Any]) -> object:
    """A system that calls the function, in the given kind of execution."""

    class Plain:
        def run(self, sample: EvaluationSample, *, top_k: int) -> Any:
            return function(sample)

    class Waiting:
        async def run(self, sample: EvaluationSample, *, top_k: int) -> Any:
            return function(sample)

    return Waiting() if kind == "loop" else Plain()


def number(sample: EvaluationSample) -> int:
    return int(sample.sample_id[1:])


def own(sample: EvaluationSample) -> SystemOutputs:
    """An answer that names its sample."""
    return output([sample.sample_id], answer=sample.sample_id)
