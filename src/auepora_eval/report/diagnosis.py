"""The report of a diagnosis: its sentence, tables and charts, and the page with the arms side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from .._version import __version__
from ..compare.diagnosis import (
    CAUSES,
    FEW_AT_POSITION,
    MIRAGE,
    DiagnosisNumbers,
    Effect,
    Quantity,
    recommendations,
    sentence,
)
from ..errors import BadValueError
from ..render.blocks import (
    Block,
    Bullets,
    Cell,
    Details,
    Figure,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    Row,
    Table,
    TableColumn,
    simple_table,
    without_none,
)
from ..render.charts.queries import causes_chart
from ..render.html import interval_ends, value_text
from ..render.short import ShortForm, rounded
from ..render.terminal import blocks_text
from ..runtime.files import write_text
from ..store.records import RunRecord
from ..store.runs import CachedStore, RunStore
from .comparison_sections import query_link
from .pages import ReportContent, report_html
from .run_sections import StoredRun, provenance_section

_MOST_LISTED = 50
_NUMBER = TableColumn("value", number=True)
_INTERVAL = TableColumn("95 % interval")
_COUNT = TableColumn("questions", number=True)


def _cells(quantity: Quantity, *, signed: bool = False, short: bool = False) -> Row:
    """Value, interval and count of a quantity as table cells; ``short``: with the digits that the interval allows."""
    form: Callable[[float], str] = "{:+.4f}".format if signed else value_text
    if short:
        form = partial(rounded, ends=quantity.interval, sign="+" if signed else "")
    value = "n/a" if quantity.value is None else form(quantity.value)
    doubt = " ?" if quantity.flags else ""
    ends = "" if quantity.interval is None else f"{form(quantity.interval[0])} – {form(quantity.interval[1])}{doubt}"
    count = f"{quantity.n}" if quantity.count is None else f"{quantity.count} of {quantity.n}"
    return [value, ends, count]


def arms_table(numbers: DiagnosisNumbers, *, short: bool = False) -> Table:
    """The proportion of right answers of each arm, of answers that change in a second run, gain and headroom."""
    rows: list[Row] = [
        [f"right answers: {arm}", *_cells(quantity, short=short)] for arm, quantity in numbers.accuracy.items()
    ]
    rows += [
        [f"answers that change in a second run: {arm}", *_cells(quantity, short=short)]
        for arm, quantity in numbers.retest.items()
        if quantity.count or not short
    ]
    if numbers.gain is not None:
        rows.append(["RAG gain (retrieved - none)", *_cells(numbers.gain, signed=True, short=short)])
    if numbers.headroom is not None:
        rows.append(["headroom (oracle - retrieved)", *_cells(numbers.headroom, signed=True, short=short)])
    return simple_table(["arm", _NUMBER, _INTERVAL, _COUNT], rows)


def _effects_table(
    title: str, effects: Mapping[str, Effect], meanings: Mapping[str, str], *, explained: bool, short: bool = False
) -> Table:
    """A row per class of answers; ``explained`` adds what it means."""
    rows: list[Row] = []
    for name, effect in effects.items():
        compared = name != "context_acceptability" and bool(effect.proportion.count)
        verdict = "" if not compared else "yes" if effect.is_named else effect.unnamed
        rows.append([name, *_cells(effect.proportion, short=short), verdict, *([meanings[name]] if explained else [])])
    columns: list[TableColumn | str] = [title, _NUMBER, _INTERVAL, _COUNT, "beyond a second run?"]
    return simple_table([*columns, "meaning"] if explained else columns, rows)


def causes_table(numbers: DiagnosisNumbers, *, explained: bool = False, short: bool = False) -> Table | None:
    """The causes of the wrong answers; their proportions sum to 1."""
    if not numbers.causes or not numbers.wrong:
        return None
    found = {name: cause for name, cause in numbers.causes.items() if cause.proportion.count or not short}
    return _effects_table("cause of wrong answers", found, CAUSES, explained=explained, short=short)


def mirage_table(numbers: DiagnosisNumbers, *, explained: bool = False) -> Table | None:
    """MIRAGE's classes of all answers; their proportions sum to 1."""
    if not numbers.mirage:
        return None
    title = f"class of answers (from {numbers.mirage_from})"
    words = {**MIRAGE, "system_failed": CAUSES["system_failed"]}
    return _effects_table(title, numbers.mirage, words, explained=explained)


def sufficiency_table(numbers: DiagnosisNumbers) -> Table:
    """Whether gold was retrieved, by whether the answer is right, declined or wrong; proportions of all questions."""
    rows = [
        [f"{group}, {name}", *_cells(quantity)]
        for group, row in numbers.sufficiency.items()
        for name, quantity in row.items()
    ]
    return simple_table(["retrieved documents, answer", _NUMBER, _INTERVAL, _COUNT], rows)


def positions_blocks(numbers: DiagnosisNumbers) -> list[Block]:
    """Right answers by the position of the first gold document in the arm ``mixed``."""
    if not numbers.positions:
        return []
    rows = [[str(position), *_cells(quantity)] for position, quantity in numbers.positions.items()]
    blocks: list[Block] = [simple_table(["gold at position", _NUMBER, _INTERVAL, _COUNT], rows)]
    few = [str(position) for position, quantity in numbers.positions.items() if quantity.n < FEW_AT_POSITION]
    if few:
        blocks.append(
            Prose(
                f"Fewer than {FEW_AT_POSITION} questions have gold at position {', '.join(few)}: do not read the "
                "differences between positions as an effect.",
                "open",
            )
        )
    return blocks


def utility_blocks(numbers: DiagnosisNumbers) -> list[Block]:
    """Document utility: eRAG, UDCG, and the most harmful distractors."""
    if numbers.utility is None:
        return []
    rows = [[name, *_cells(measure)] for name, measure in numbers.utility.measures.items()]
    blocks: list[Block] = [simple_table(["utility of documents", _NUMBER, _INTERVAL, _COUNT], rows)]
    if any("within list" in name for name in numbers.utility.measures):
        blocks.append(
            Prose("Measures within list know the useful documents of the list only: do not compare retrievers by them.")
        )
    if numbers.utility.distractors:
        listed: list[Row] = [
            [item.doc_id, str(item.misled), str(item.questions)] for item in numbers.utility.distractors
        ]
        misled, questions = TableColumn("misled", number=True), TableColumn("questions", number=True)
        blocks.append(simple_table(["most harmful distractors", misled, questions], listed))
    return blocks


def diagnosis_blocks(numbers: DiagnosisNumbers, correct: str, notes: Sequence[str] = ()) -> list[Block]:
    """The diagnosis as blocks: the sentence, tables, recommendations and notes."""
    tables = [causes_table(numbers), arms_table(numbers), mirage_table(numbers), sufficiency_table(numbers)]
    blocks: list[Block] = [Prose(sentence(numbers)), *without_none(*tables)]
    blocks += [*positions_blocks(numbers), *utility_blocks(numbers)]
    if advice := recommendations(numbers):
        blocks += [Prose("What to do:"), Bullets(advice)]
    left = f"{numbers.left_out} questions were not measured in every arm, and are left out"
    blocks.append(Bullets([f"an answer is right if {correct}", *([left] if numbers.left_out else []), *notes]))
    return blocks


def diagnosis_short(
    numbers: DiagnosisNumbers,
    correct: str,
    notes: Sequence[str],
    *,
    about: Sequence[tuple[str, str]],
    commands: Sequence[tuple[str, str]],
) -> ShortForm:
    """The diagnosis in the short form: the sentence, the causes, the arms, notes ``about`` the runs, and what to do."""
    advice = [("do", text) for text in recommendations(numbers)]
    left = [f"{numbers.left_out} questions were not measured in every arm"] * bool(numbers.left_out)
    causes, arms = causes_table(numbers, short=True), arms_table(numbers, short=True)
    listed = [*about, *advice, ("note", "; ".join([f"right is {correct}", *left, *notes]))]
    return ShortForm(sentence(numbers), [*([] if causes is None else [causes]), arms], notes=listed, commands=commands)


def diagnosis_dict(
    numbers: DiagnosisNumbers, correct: str, runs: dict[str, str], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The diagnosis for JSON; ``runs`` are the ids of its runs by label."""
    return {
        "schema": 1,
        "sentence": sentence(numbers),
        "correct": correct,
        **numbers.to_dict(),
        "recommendations": recommendations(numbers),
        "runs": runs,
        "notes": list(notes),
    }


# --- the page --------------------------------------------------------------------------------------------------------


def write_diagnosis(
    store: RunStore,
    records: Sequence[RunRecord],
    path: str | Path,
    *,
    title: str,
    numbers: DiagnosisNumbers,
    correct: str,
    metric: str,
    notes: Sequence[str] = (),
) -> Path:
    """Write the report of a diagnosis as one HTML file; ``records`` are the runs of its arms, shown side by side.

    ``correct`` says in words which answers are right, by the scores of ``metric``.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise BadValueError(f"{path}: the report of a diagnosis is HTML, so the name must end in .html")
    cached = CachedStore(store)
    runs = [StoredRun(cached, record, record.name.partition("[arm=")[2].rstrip("]")) for record in records]
    report = build_diagnosis_report(runs, title=title, numbers=numbers, correct=correct, notes=notes)
    pieces = report_html(ReportContent(report, runs, metric, side_by_side=True))
    write_text(path, pieces)
    return path


def build_diagnosis_report(
    runs: Sequence[StoredRun], *, title: str, numbers: DiagnosisNumbers, correct: str, notes: Sequence[str]
) -> Report:
    """The report: the sentence, a bar per cause, the tables, recommendations, and where the numbers come from."""
    advice = recommendations(numbers)
    causes, mirage = causes_table(numbers, explained=True), mirage_table(numbers, explained=True)
    sections = []
    if causes is not None:
        bars = {
            name: {"count": cause.proportion.count, **interval_ends(cause.proportion.interval)}
            for name, cause in numbers.causes.items()
        }
        figure = Figure(causes_chart(bars, title="Causes of wrong answers"), "Proportion of the wrong answers by cause")
        sections.append(ReportSection("causes", "Why answers are wrong", [figure, causes]))
    if advice:
        sections.append(ReportSection("next", "What to do", [Bullets(advice)]))
    parts: list[tuple[str, str, list[Block]]] = [
        ("questions", "Questions with a wrong answer", _question_lists(numbers)),
        ("arms", "Arms", without_none(arms_table(numbers), mirage)),
        ("sufficiency", "Was the evidence there?", [sufficiency_table(numbers)]),
        ("positions", "Position of gold", positions_blocks(numbers)),
        ("utility", "Utility of single documents", utility_blocks(numbers)),
        ("notes", "Notes", [Bullets([f"an answer is right if {correct}", *notes])]),
    ]
    sections += [ReportSection(anchor, title, blocks) for anchor, title, blocks in parts if blocks]
    provenance = provenance_section(runs)
    sections += [provenance] if provenance is not None else []
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    subtitle = f"{numbers.n} questions; " + "; ".join(f"{run.letter}: {run.record.run_id}" for run in runs)
    verdict = ReportVerdict(sentence(numbers), "open" if numbers.wrong else "good", advice[:3])
    return Report(f"Diagnosis of {title}", subtitle, verdict, sections, made)


def _question_lists(numbers: DiagnosisNumbers) -> list[Block]:
    """Links to the questions of each cause, where the arms are side by side."""
    blocks: list[Block] = []
    for cause, ids in numbers.questions.items():
        if ids:
            rows: list[Row] = [[Cell(sample_id, href=query_link(sample_id))] for sample_id in ids[:_MOST_LISTED]]
            more = f" (the first {_MOST_LISTED} of {len(ids)})" if len(ids) > _MOST_LISTED else ""
            blocks.append(Details(f"{cause}: {len(ids)}{more}", [simple_table(["question"], rows)]))
    return blocks


def preview_text(calls: dict[str, int], questions: int, judging: str, judge_calls: int) -> str:
    """The calls of a diagnosis, before it is made."""
    rows: list[Row] = [[arm, str(count)] for arm, count in calls.items()]
    rows.append(["all", str(sum(calls.values()))])
    table = simple_table(["arm", TableColumn("calls of the system", number=True)], rows)
    head = Prose(
        f"{questions} questions; oracle and retrieved are run twice, and each calls at most k times a question."
    )
    total = f"All runs together: at most {judge_calls} calls of judges, without retries; equal answers are judged once."
    return f"{blocks_text([head, table])}\n\nJudging of one run:\n\n{judging}\n\n{total}"
