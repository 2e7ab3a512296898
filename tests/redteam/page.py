"""The page of the red team, written from the outcomes:  cd tests && python -m redteam.page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from auepora_eval.render.markdown import escape_markdown
from redteam.fault_chance import FAULTS as OF_CHANCE
from redteam.fault_judges import FAULTS as OF_JUDGES
from redteam.fault_outputs import FAULTS as OF_OUTPUTS
from redteam.fault_samples import FAULTS as OF_SAMPLES
from redteam.fault_stores import FAULTS as OF_STORES
from redteam.honest import equal_line, green_pairs, honest_line
from redteam.planted import Fault, FoundByVerify, Noted, RowOutcome, Stopped, Unseen, run_row

PAGE = Path(__file__).parents[2] / "docs" / "redteam.md"
FAULTS: tuple[Fault, ...] = (*OF_SAMPLES, *OF_OUTPUTS, *OF_JUDGES, *OF_STORES, *OF_CHANCE)
FAMILIES = tuple(dict.fromkeys(fault.family for fault in FAULTS))

KNOWN: Mapping[type, str] = {
    Stopped: "stopped by the gate",
    FoundByVerify: "found by verify",
    Noted: "noted",
    Unseen: "not detectable",
}

_OPENING = """# Red team

Generated from the outcomes by `cd tests && python -m redteam.page`.

Here are {faults} faults that somebody could plant in results, by intent or by mistake, and what the tool says to each.
Every fault is planted in real stored runs, and checked as a user does: `auepora verify` of both runs and
`auepora gate` with gates as they are written in a plan. A gate is green if the gates pass and `auepora verify` finds no
difference. [`tests/redteam`](../tests/redteam/__init__.py) has the rows, and tells how to add one.

| what the tool can know | faults | meaning |
|---|---|---|
| stopped by the gate | {stopped} | the gate is refused (exit 2), fails (1) or is inconclusive (3), for the quoted reason |
| found by verify | {verified} | `auepora verify` exits with 1 and names what was changed; the gate alone reads what is stored |
| noted | {noted} | it looks like an honest change; the first screen of the gate or of `auepora compare` names it |
| not detectable | {unseen} | nothing in the data reveals it |

The first two are detectable: none of them has a green gate. For the others the table has how many of the planted faults
were green, and why it cannot be known. A random fault is planted several times, with seeds that follow from its name.

What must stay green, and what must not:

{honest}
{equal}
"""


def opening(honest: str, equal: str) -> str:
    """The text above the tables."""
    counts = {kind: sum(isinstance(fault.known, kind) for fault in FAULTS) for kind in KNOWN}
    return _OPENING.format(
        faults=len(FAULTS),
        stopped=counts[Stopped],
        verified=counts[FoundByVerify],
        noted=counts[Noted],
        unseen=counts[Unseen],
        honest=honest,
        equal=equal,
    )


def row_start(fault: Fault) -> str:
    """The beginning of the line of a row: what no outcome changes."""
    gates = "all of " * (len(fault.gates) > 1) + ", ".join(f"`{gate}`" for gate in fault.gates[:2])
    more = f" and {len(fault.gates) - 2} more" * (len(fault.gates) > 2)
    name = escape_markdown(fault.name.replace("\x1b", "\\x1b").replace("\n", "\\n"))
    return f"| {name} | {gates}{more} | {KNOWN[type(fault.known)]} | "


def row_line(fault: Fault, outcome: RowOutcome) -> str:
    """The line of a row."""
    return f"{row_start(fault)}{outcome.text} | {fault.why} |"


def write_page() -> list[str]:
    """Run all rows and write the page; returns the problems."""
    problems: list[str] = []
    parts = [opening(honest_line(green_pairs(improved=True)), equal_line(green_pairs(improved=False)))]
    for family in FAMILIES:
        lines, found = _family(family)
        parts.append(f"## {family.capitalize()}\n\n" + "\n".join(lines) + "\n")
        problems += found
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return problems


def _family(family: str) -> tuple[Sequence[str], Sequence[str]]:
    lines = ["| fault | gate | can be known | outcome | why |", "|---|---|---|---|---|"]
    problems = []
    for fault in FAULTS:
        if fault.family != family:
            continue
        outcome = run_row(fault)
        lines.append(row_line(fault, outcome))
        if outcome.problem:
            problems.append(f"{fault.name}: {outcome.problem}")
    return lines, problems


if __name__ == "__main__":
    for problem in write_page():
        print(problem)
