"""A plan's ``report``: the file is written when the run has been scored, and never costs the run."""

from collections.abc import Callable

from helpers.report_pages import Page
from helpers.user_project import Project

Auepora = Callable[..., tuple[int, str, str]]


def test_plan_writes_its_report(project: Callable[[int], Project], auepora: Auepora) -> None:
    mine = project(6)
    code, _, err = auepora("run", mine.plan(more="report: told.html\n"))
    assert code == 0
    assert f"wrote {mine.folder / 'told.html'}" in err
    page = Page((mine.folder / "told.html").read_text(encoding="utf-8"))
    page.require_sound()
    assert page.headings[0] == (1, "nightly")


def test_report_that_cannot_be_written_is_a_warning(project: Callable[[int], Project], auepora: Auepora) -> None:
    code, out, err = auepora("run", project(3).plan(more="report: not/there.html\n"))
    assert code == 0
    assert "recall@5" in out
    assert "the report was not written" in err
