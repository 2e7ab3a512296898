"""Every planted fault has the outcome that its row states, and the page says the same."""

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from redteam.honest import LEAST_GREEN, MOST_GREEN, equal_line, green_pairs, honest_line
from redteam.page import FAMILIES, FAULTS, PAGE, opening, row_line, row_start
from redteam.planted import EXIT_CODES, Fault, FoundByVerify, Noted, Stopped, Unseen, planted, run_row

Cli = Callable[..., tuple[int, str, str]]


def is_random(fault: Fault) -> bool:
    return isinstance(fault.known, Noted | Unseen) and fault.known.trials > 1


@cache
def fast_rows() -> tuple[Fault, ...]:
    """The first row of each family that is planted once: these run with the fast tests."""
    once = [fault for fault in FAULTS if not is_random(fault)]
    return tuple(next(fault for fault in once if fault.family == family) for family in FAMILIES)


def parameter(fault: Fault) -> object:
    marks = [] if fault in fast_rows() else [pytest.mark.slow]
    return pytest.param(fault, id=f"{fault.family}: {fault.name}".encode("ascii", "replace").decode(), marks=marks)


@cache
def page_lines() -> list[str]:
    return PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("fault", [parameter(fault) for fault in FAULTS])
def test_fault(fault: Fault) -> None:
    outcome = run_row(fault)
    assert not outcome.problem
    assert row_line(fault, outcome) in page_lines()


def test_page_has_the_rows_in_their_order() -> None:
    rows = [line for line in page_lines() if line.startswith("| ") and not line.startswith("| fault")]
    ordered = [fault for family in FAMILIES for fault in FAULTS if fault.family == family]
    assert len(rows) - len(ordered) == 5, "the table of the opening has five lines"
    for line, fault in zip(rows[5:], ordered, strict=True):
        assert line.startswith(row_start(fault))


def test_page_begins_with_the_opening() -> None:
    found = [line for line in page_lines() if line.startswith("* ")]
    assert PAGE.read_text(encoding="utf-8").startswith(opening(*found))


def test_rows() -> None:
    assert len(FAULTS) == 200
    assert len({fault.name for fault in FAULTS}) == 200
    assert len(FAMILIES) == 12
    assert min(Counter(fault.family for fault in FAULTS).values()) >= 15
    assert all(fault.why for fault in FAULTS)


@pytest.mark.parametrize("fault", fast_rows(), ids=FAMILIES)
def test_commands_agree_with_the_row(fault: Fault, auepora: Cli) -> None:
    """``auepora gate`` and ``auepora verify`` of the first row of each family."""
    with planted(fault) as (bench, pair):
        assert pair.baseline is not None
        store = ["--store", str(bench.path)]
        runs = [pair.baseline.run_id, pair.run.run_id]
        gates = [part for gate in fault.gates for part in ("-g", gate)]
        code, out, err = auepora("gate", runs[1], "--against", runs[0], *gates, *store, "--all")
        verified = [auepora("verify", run_id, *store) for run_id in runs]
    if isinstance(fault.known, Stopped):
        assert code == EXIT_CODES[fault.known.status]
        assert fault.known.words in out + err
    else:
        assert isinstance(fault.known, FoundByVerify)
        assert max(found[0] for found in verified) == 1
        assert any(fault.known.words in found[1] for found in verified)


@pytest.mark.slow
def test_honest_improvements_are_green() -> None:
    green = green_pairs(improved=True)
    assert green >= LEAST_GREEN
    assert honest_line(green) in page_lines()


@pytest.mark.slow
def test_equal_systems_are_not_green() -> None:
    green = green_pairs(improved=False)
    assert green <= MOST_GREEN
    assert equal_line(green) in page_lines()
