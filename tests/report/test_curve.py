"""Perturbation curves: the drawing, the table, Markdown and JSON."""

import pytest

from auepora_eval.report.plots import DRAWING_WIDTH, Curve, CurvePoint, curve_markdown, curve_text

ROWS = [  # value, interval, own scale, position of the point, ends of the line, why
    (0.5, (0.25, 0.75), False, 12, (6, 18), "the middle of 0 to 1"),
    (0.0, (0.0, 0.1), False, 0, (0, 2), "at the beginning"),
    (1.0, (0.9, 1.0), False, 24, (22, 24), "at the end"),
    (0.5, None, False, 12, (12, 12), "no interval"),
    (50.0, (25.0, 100.0), False, 12, (6, 24), "BLEU goes up to 100"),
    (-10.0, (-40.0, 0.0), False, 18, (0, 24), "below 0"),
    (0.002, (0.001, 0.004), True, 12, (6, 24), "seconds on a scale of their own"),
    (0.0, None, True, 0, (0, 0), "nothing but 0"),
]


@pytest.mark.parametrize(("value", "interval", "own", "point", "line", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_interval_drawing(
    value: float, interval: tuple[float, float] | None, own: bool, point: int, line: tuple[int, int], why: str
) -> None:
    points = [CurvePoint(0.0, value, interval)]
    curve = Curve("noise", (0.0,), 0.0, 0, ["run_1"], {"m": points}, frozenset({"m"} if own else ()))
    drawn = next(word for word in curve_text(curve).splitlines()[2].split() if "●" in word)
    assert len(drawn) == DRAWING_WIDTH
    assert drawn.index("●") == point
    assert [place for place, mark in enumerate(drawn) if mark != "·"] == list(range(line[0], line[1] + 1))


def curve() -> Curve:
    points = [
        CurvePoint(0.0, 0.5, (0.4, 0.6), 10),
        CurvePoint(0.2, 0.3, (0.2, 0.4), 10, -0.2, (-0.3, -0.1), 0.01, 0.00002, "worse", ("few",)),
        CurvePoint(1.0, None),
    ]
    return Curve(
        "noise", (0.0, 0.2, 1.0), 0.0, 7, ["a", "b", "c"], {"f|1": points}, refused={"x": "why"}, notes=["so\nit is"]
    )


def test_curve_text() -> None:
    text = curve_text(curve())
    lines = text.splitlines()
    assert "from 0" in lines[0]
    assert "0.2000 – 0.4000 ?" in lines[3]
    assert lines[3].endswith("-0.2000  -0.3000 … -0.1000  < 0.0001  worse")
    assert lines[4].split() == ["1", "n/a"]
    assert lines[-3:] == [
        "? few or skewed samples: the interval may be too narrow",
        "not compared with 0: x (why)",
        "so\\nit is",
    ]


def test_curve_uses_display_names() -> None:
    points = [CurvePoint(0.0, 0.5)]
    drawn = Curve(
        "noise", (0.0,), 0.0, 0, ["a"], {"map": points, "mrr": points}, display_names={"map": "map (over hits)"}
    )
    assert [line[:15].strip() for line in curve_text(drawn).splitlines()[2:4]] == ["map (over hits)", "mrr"]
    assert "| map (over hits) | 0 |" in curve_markdown(drawn)
    assert list(drawn.to_dict()["metrics"]) == ["map", "mrr"]


def test_curve_markdown() -> None:
    page = curve_markdown(curve())
    assert r"|  | 0.2 | 0.3000 | 0.2000 – 0.4000 ? | -0.2000 |" in page
    assert "- not compared with 0: x (why)" in page


def test_curve_to_dict() -> None:
    data = curve().to_dict()
    assert (data["schema"], data["perturbation"], data["rates"], data["runs"], data["seed"]) == (
        1,
        "noise",
        [0.0, 0.2, 1.0],
        ["a", "b", "c"],
        7,
    )
    assert data["metrics"]["f|1"][1] == {
        "rate": 0.2,
        "value": 0.3,
        "interval": [0.2, 0.4],
        "n": 10,
        "delta": -0.2,
        "delta_interval": [-0.3, -0.1],
        "p_value": 0.01,
        "p_adjusted": 0.00002,
        "verdict": "worse",
        "flags": ["few"],
    }
    arms = Curve("arms", ("none", "edited"), "none", 0, ["a", "b"], {"m": [CurvePoint("none", 1.0)]}).to_dict()
    assert arms["arms"] == ["none", "edited"]
    assert arms["metrics"]["m"][0]["arm"] == "none"
