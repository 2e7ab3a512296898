"""The picture at the start of the README has the numbers of the demo."""

from xml.etree import ElementTree

import pytest

from helpers.requirements import REPO
from tools.demo_picture import PICTURE, draw, read_comparison, run_demo

PRINTED = """
Mixed: B against A on 2 primary metrics: 2 better; worse and not primary: support_density and 1 more

primary metric     A     B  B − A   95 % interval  verdict
--------------  ----  ----  -----  --------------  --------
recall@5        0.64  0.83  +0.19  −0.09 to +0.30  ▲ better
token_f1        0.20  0.42  +0.22  +0.12 to +0.31  ▲ better

failed  A: 3 of 135 samples failed; B: 0 of 135 samples failed
fell    support_density 1.000 → 0.907, quantile_latency[end_to_end,0.95] (s) 0.0003 → 0.0191
"""


def texts(picture: str) -> list[str]:
    """The texts that a picture shows."""
    return [
        "".join(node.itertext()) for node in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_figures_are_those_that_were_printed() -> None:
    comparison = read_comparison(PRINTED)
    shown = texts(draw(comparison))
    for figure in ("recall@5", "0.64", "0.83", "+0.19", "0.20", "0.42", "▲ better"):
        assert figure in shown, figure
    assert "failed: 3 of 135 in A, 0 of 135 in B" in shown
    assert "fell: support_density 1.000 → 0.907" in shown
    assert comparison.differences[0].low == "−0.09"


def test_a_demo_without_a_comparison_is_an_error() -> None:
    with pytest.raises(ValueError, match="the demo printed no failed answers"):
        read_comparison("nothing")


@pytest.mark.slow
def test_the_picture_is_that_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr("auepora_eval.models.loading.find_installed_model", lambda: None)  # loading one takes a while
    assert PICTURE.read_text(encoding="utf-8") == draw(read_comparison(run_demo())), "run `make docs`"


def test_the_readme_has_the_figures_of_the_picture() -> None:
    (line,) = [text for text in (REPO / "README.md").read_text().splitlines() if "docs/images/comparison.svg" in text]
    figures = [text for text in texts(PICTURE.read_text(encoding="utf-8")) if text.startswith("0.")]
    assert len(figures) == 6
    assert [figure for figure in figures if figure not in line] == []
