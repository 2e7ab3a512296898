"""Whether the first calls of a run all fail in the same way."""

from collections.abc import Callable

import pytest

from auepora_eval.core.types import SystemOutputs
from auepora_eval.errors import SystemCallError
from auepora_eval.systems.calls import timeout_error
from auepora_eval.systems.interfaces import GenerationFailedError
from auepora_eval.systems.policy import FirstCalls, user_traceback

Outcome = tuple[str | None, BaseException | None]


def index_error(n: int) -> LookupError:
    return _raised(lambda: [][n])


def key_error(n: int) -> LookupError:
    return _raised(lambda: dict[int, int]()[n])


def _raised(call: Callable[[], object]) -> LookupError:
    try:
        call()
    except LookupError as error:
        return error
    raise AssertionError


def raised(error: BaseException) -> Outcome:
    return f"raised: {type(error).__name__}: {error}", error


FINE: Outcome = (None, None)
ROWS = [  # outcomes, whether the third call says that all fail, why
    ([raised(key_error(n)) for n in range(3)], True, "one line raised, with another message each time"),
    ([raised(key_error(0)), raised(index_error(0)), raised(key_error(0))], False, "two lines raised"),
    ([raised(key_error(0)), FINE, raised(key_error(0))], False, "one answer"),
    ([FINE, *[raised(key_error(n)) for n in range(3)]], False, "the first call was answered"),
    ([raised(GenerationFailedError(key_error(n), SystemOutputs([]))) for n in range(3)], True, "the generator raised"),
    ([(f"status_500: {n}", SystemCallError("status_500", str(n))) for n in range(3)], True, "the endpoint is broken"),
    ([(f"bad_output: {n}", None) for n in range(3)], True, "nothing usable is returned"),
    ([(f"timeout: {n}", timeout_error(n)) for n in range(3)], False, "timeouts may be a cold start"),
]


@pytest.mark.parametrize(("outcomes", "fail", "why"), ROWS, ids=[why for *_, why in ROWS])
def test_first_calls(outcomes: list[Outcome], fail: bool, why: str) -> None:
    calls = FirstCalls(3)
    found = [calls.all_fail(SystemOutputs([], error=error), cause) for error, cause in outcomes]
    assert found == [False, False, fail, *[False] * (len(outcomes) - 3)]
    assert not FirstCalls(0).all_fail(SystemOutputs([], error="raised: nothing is watched"), None)


def test_the_message_of_a_single_call() -> None:
    calls = FirstCalls(1)
    assert calls.all_fail(SystemOutputs([], error="bad_output: a dict\nof two lines"), None)
    assert calls.message == "the first call failed: bad_output: a dict of two lines"


def test_the_traceback_has_causes_and_no_frames_of_this_package() -> None:
    try:
        try:
            SystemOutputs(error_that_is_no_field=1)  # type: ignore[call-arg]
        except TypeError as error:
            raise ValueError("cannot answer") from error
    except ValueError as error:
        text = user_traceback(error)
    assert text.startswith("Traceback (most recent call last):")
    assert text.endswith("ValueError: cannot answer")
    assert "direct cause" in text
    assert "/auepora_eval/" not in text
    assert user_traceback(SystemCallError("status_500", "no")) == "", "raised by this package: the message says it all"
