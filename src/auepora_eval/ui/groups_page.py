"""Wrong answers of one run or two, grouped by terms that their questions share; a page, or a part of other pages."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from ..errors import BadValueError
from ..queries.failure_groups import LIMITS, METHOD, AnswerRule, FailureGroups, choose_rule, find_failure_groups
from .page_request import PageRequest, page_route
from .query_list import CAUSE_WORDS, query_table, records_of
from .workbench import page_message, render_template


def groups_page(request: PageRequest) -> Response:
    """The groups of one run or of two; with ``fragment=1`` as a part of another page."""
    workbench, params = request.workbench, request.parameters
    records = records_of(workbench, params)
    table = query_table(workbench, records)
    correct, least = params.get("correct") or None, params.number("correct_from")
    context: dict[str, Any] = {"found": None, "problem": "", "correct": correct, "least": least}

    def build() -> tuple[AnswerRule, FailureGroups]:
        rule = choose_rule(table, correct, least)
        return rule, find_failure_groups(table, rule)

    versions = tuple(workbench.version(record) for record in records)
    key = (records[-1].run_id, records[0].run_id, versions, "failure groups", correct, least)
    try:
        rule, found = workbench.cached(key, build, size=20_000)
        context |= {"found": found, "correct": rule.changes_by, "least": rule.wrong.value}
    except BadValueError as error:
        context["problem"] = page_message(error)
    return render_template(
        request,
        "groups.html",
        records=records,
        runs=[record.run_id for record in records],
        metrics=table.metric_labels,
        words={cause.value: words for cause, words in CAUSE_WORDS.items()},
        method=METHOD,
        limits=LIMITS,
        **context,
    )


ROUTES = [page_route("/queries/groups", groups_page)]
