"""One test over many cases that lists every case which fails."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def for_each(
    cases: Iterable[Case], *, name: Callable[[Case], object] = str
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """Turn a check of one case into one test of all cases, which fails with the name and message of each that fails.

    Cheaper than ``parametrize`` where there are hundreds of small cases.
    """
    listed = list(cases)

    def decorate(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            failures = []
            for case in listed:
                try:
                    check(case)
                except Exception as error:
                    failures.append(f"{name(case)}: {type(error).__name__}: {error}")
            assert listed, "there are no cases"
            if failures:
                lines = [f"{len(failures)} of {len(listed)} cases fail", *failures]
                pytest.fail("\n".join(lines), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate
