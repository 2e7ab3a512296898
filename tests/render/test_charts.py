"""Charts: specs and SVG are well-formed, inert, accessible and numerically right."""

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import BadValueError
from auepora_eval.render.charts.chart import Chart
from auepora_eval.render.charts.curves import curve_over_k, distribution_chart, latency_chart
from auepora_eval.render.charts.intervals import forest_chart, interval_chart
from auepora_eval.render.charts.layout import (
    BAD,
    GOOD,
    MUTED,
    SERIES,
    TEXT,
    apply_theme,
    count_range,
    linear_range,
    log_range,
    plain_colour,
    unique_labels,
)
from auepora_eval.render.charts.queries import scatter_chart, wins_losses_chart
from auepora_eval.render.charts.svg import format_tick, measure_width, truncate
from helpers.chart_gallery import GALLERY, HOSTILE, row
from helpers.checks import for_each

SVG = "{http://www.w3.org/2000/svg}"
CHART_NAMES = {make: name for name, make in GALLERY.items()}
every_chart = for_each(GALLERY.values(), name=CHART_NAMES.__getitem__)


def parse_svg(chart: Chart, **options: Any) -> ElementTree.Element:
    return ElementTree.fromstring(chart.to_svg(**options))


def texts(svg: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in svg.iter(f"{SVG}text")]


def marks(svg: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """The marks of a kind, out of their links."""
    groups = [one for one in svg.iter(f"{SVG}g") if f"mark-{kind}" in one.get("class", "").split()]
    found = [mark for group in groups for mark in group]
    return [mark[0] if mark.tag == f"{SVG}a" else mark for mark in found]


def views(chart: Chart) -> list[dict[str, Any]]:
    return list(chart.spec["vconcat"])


def domain(view: dict[str, Any], axis: str = "x") -> list[float]:
    channels = [one["encoding"].get(axis, {}) for one in view["layer"]]
    return next(list(one["scale"]["domain"]) for one in channels if "scale" in one)


@every_chart
def test_svg_is_well_formed_and_static(make: Callable[[], Chart]) -> None:
    themes: tuple[Any, ...] = (None, "light", "dark")
    for one in (element for theme in themes for element in parse_svg(make(), theme=theme).iter()):
        assert one.tag.removeprefix(SVG) in {
            *("svg", "title", "desc", "g", "a", "text", "rect", "line", "circle", "polygon", "path"),
        }
        for key, value in one.attrib.items():
            assert not key.startswith("on")
            assert key not in ("style", "id") or (key == "id" and value.startswith("chart-"))
            assert "url(" not in value
            assert key != "href" or value.startswith("#q/")
            assert not re.search(r"nan|inf(?!er)", value.lower()) or key in ("aria-labelledby", "href"), (key, value)


@every_chart
def test_svg_has_accessible_title_and_description(make: Callable[[], Chart]) -> None:
    chart = make()
    svg = parse_svg(chart)
    assert svg.get("role") in ("img", "group")
    title, text = svg[0], svg[1]
    assert (title.tag, text.tag) == (f"{SVG}title", f"{SVG}desc")
    assert svg.get("aria-labelledby") == f"{title.get('id')} {text.get('id')}"
    assert title.text == chart.title
    assert text.text == chart.description
    assert len(chart.description) > 10


@every_chart
def test_everything_lies_inside_the_viewbox(make: Callable[[], Chart]) -> None:
    svg = parse_svg(make())
    _, _, width, height = map(float, svg.get("viewBox", "").split())
    for view in svg.iter(f"{SVG}g"):
        if view.get("class") != "view":
            continue
        x, y = map(float, view.get("transform", "")[len("translate(") : -1].split(","))
        for circle in view.iter(f"{SVG}circle"):
            assert -4 <= x + float(circle.get("cx", 0)) <= width + 4
            assert -4 <= y + float(circle.get("cy", 0)) <= height + 4
        for rect in view.iter(f"{SVG}rect"):
            assert x + float(rect.get("x", 0)) >= -1
            assert x + float(rect.get("x", 0)) + float(rect.get("width", 0)) <= width + 1
            assert y + float(rect.get("y", 0)) + float(rect.get("height", 0)) <= height + 1


@pytest.mark.parametrize("name", ["intervals in doubt", "hostile names"])
def test_legend_fits_narrow_chart(name: str) -> None:
    svg = parse_svg(GALLERY[name](), width=240, heading=False)
    width = float(svg.get("width", 0))
    for view in (one for one in svg.iter(f"{SVG}g") if one.get("class") == "view"):
        x = float(view.get("transform", "")[len("translate(") :].split(",")[0])
        for legend in (one for one in view.iter(f"{SVG}g") if one.get("class") == "legend"):
            for text in legend.iter(f"{SVG}text"):
                assert (
                    x + float(text.get("x", 0)) + measure_width(text.text or "", float(text.get("font-size", 0)))
                    <= width
                )


@every_chart
def test_spec_is_json_with_inline_data(make: Callable[[], Chart]) -> None:
    chart = make()
    assert json.loads(chart.to_json()) == chart.spec
    assert all(list(layer["data"]) == ["values"] for view in views(chart) for layer in view["layer"])


@every_chart
def test_chart_can_be_narrow(make: Callable[[], Chart]) -> None:
    chart = make()
    narrow = parse_svg(chart, width=360, heading=False)
    assert float(narrow.get("width", 0)) < 560  # names beside the plot need their room
    assert float(parse_svg(chart, width=1200, heading=False).get("width", 0)) == pytest.approx(1200, abs=2)


@given(st.lists(st.text(), max_size=6), st.text(), st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=6))
def test_any_name_and_number_can_be_drawn(names: list[str], title: str, values: list[float]) -> None:
    rows = [{"name": name, "value": value, "group": name} for name, value in zip(names, values, strict=False)]
    charts = [
        interval_chart(rows, title=title),
        forest_chart([{**one, "delta": one["value"]} for one in rows], names=(title, title)),
        distribution_chart(values, title),
        latency_chart(values, name=title),
        scatter_chart(values, values, [title] * len(values), name=title, links=True),
        curve_over_k({name: [{"k": value, "value": value}] for name, value in zip(names, values, strict=False)}),
        wins_losses_chart(
            [{"name": name, "wins": value, "losses": value} for name, value in zip(names, values, strict=False)]
        ),
    ]
    for chart in charts:
        parse_svg(chart)
        json.loads(chart.to_json())


def test_colours_are_css_variables_without_theme() -> None:
    chart = GALLERY["values in two groups"]()
    assert "var(--chart-1, #4269d0)" in chart.to_svg()
    assert "var(" not in chart.to_svg(theme="light")
    assert "#8fa8ff" in chart.to_svg(theme="dark")
    assert "#4269d0" not in chart.to_svg(theme="dark")


def test_name_that_looks_like_a_colour_is_kept_in_dark_theme() -> None:
    spec = apply_theme(interval_chart([row("#4269d0", 0.5)], title="#4269d0").spec, "dark")
    assert spec["title"]["text"] == "#4269d0"
    assert spec["vconcat"][0]["layer"][0]["data"]["values"][0]["name"] == "#4269d0"
    assert spec["vconcat"][0]["layer"][0]["mark"]["color"] == "#8fa8ff"
    assert spec["background"] == "#16181c"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([row("f1", 0.5)], [[0, 1]], id="between 0 and 1"),
        pytest.param([row("aqwv", 0.5, range=(-40, 1))], [[0.0, 0.6]], id="within, of a metric that reaches further"),
        pytest.param([row("aqwv", -3.0, 1.0)], [[-4, 0]], id="below zero"),
        pytest.param([row("aqwv@5", -3.0, 1.0), row("aqwv@10", -1.0, 1.0), row("mrr", 0.5)], [[-4, 0], [0, 1]], id="cut-offs together"),
        pytest.param([row("a", 7.0, 1.0), row("b", 70.0, 10.0)], [[0, 8], [0, 80]], id="each on its own"),
        pytest.param([row("a", 7.0, 1.0, scale="s"), row("b", 70.0, 10.0, scale="s")], [[0, 80]], id="on one scale"),
    ],
)  # fmt: skip
def test_axis_domain_fits_the_metric(rows: list[dict[str, Any]], expected: list[list[float]]) -> None:
    assert [domain(view) for view in views(interval_chart(rows))] == expected


def test_missing_value_is_labelled_not_drawn() -> None:
    chart = interval_chart(
        [row("a", 0.5), {"name": "b", "value": None}, {"name": "c", "value": math.nan, "note": "why not"}]
    )
    svg = parse_svg(chart)
    assert len(marks(svg, "point")) == 1
    assert {"no value", "why not"} <= set(texts(svg))
    assert "2 of 3 have no value" in chart.description


def test_point_positions_follow_the_spec() -> None:
    svg = parse_svg(interval_chart([row("a", 0.25, 0.25), row("b", 0.5, 0.1)]))
    assert [float(one.get("cx", 0)) for one in marks(svg, "point")] == [115, 230]  # of 460 pixels
    line = marks(svg, "rule")[0]
    assert (line.get("x1"), line.get("x2")) == ("0", "230")


def test_equal_names_get_numbers() -> None:
    assert unique_labels(["a", "a\ud800", "a", "b\n"]) == ["a", "a (2)", "a (3)", "b\\n"]
    svg = parse_svg(interval_chart([row("a", 0.5), row("a", 0.6)]))
    assert {"a", "a (2)"} <= set(texts(svg))


def test_long_name_is_truncated_with_full_tooltip() -> None:
    name = "metric_" * 20
    svg = parse_svg(interval_chart([row(name, 0.5)]))
    label = next(one for one in svg.iter(f"{SVG}text") if (one.text or "").startswith("metric_"))
    assert label.text is not None
    assert label.text.endswith("…")
    assert len(label.text) < len(name)
    assert label[0].text == name


def test_rows_beyond_the_limit_are_counted() -> None:
    chart = interval_chart([row(f"m{i}", 0.5) for i in range(10_000)])
    assert len(marks(parse_svg(chart), "point")) == 200
    assert "9,800 more rows not drawn" in chart.description


def test_verdict_has_shape_word_and_colour() -> None:
    svg = parse_svg(GALLERY["differences of every verdict"]())
    shapes = {(one.tag.removeprefix(SVG), len(one.get("points", "").split())) for one in marks(svg, "point")}
    assert len(shapes) == 3  # a triangle up and one down have as many corners
    assert {"+0.3000 better", "−0.3000 worse", "0.0000 equal", "+0.0500 inconclusive"} <= set(texts(svg))


def test_exploratory_metric_has_no_verdict() -> None:
    svg = parse_svg(forest_chart([{"name": "f1", "delta": 0.1, "verdict": "better", "primary": False}]))
    assert "+0.1000" in texts(svg)
    assert "not tested" in texts(svg)


def test_exploratory_metrics_follow_below_a_line() -> None:
    shown = texts(parse_svg(GALLERY["exploratory differences below a line"]()))
    places = [shown.index(one) for one in ("f1", "Exploratory metrics: no verdict, and nothing is adjusted", "hit@5")]
    assert places == sorted(places)


def test_samples_without_a_score_are_counted() -> None:
    chart = distribution_chart([0.1, 0.9, None, math.nan] + [x / 20 for x in range(20)], "f1")
    assert "2 without a score" in chart.description
    rows = views(chart)[0]["layer"][0]["data"]["values"]
    assert sum(one["count"] for one in rows) == 22


def test_few_distinct_values_have_a_bar_each() -> None:
    chart = distribution_chart([0.0, 1.0, 1.0, 0.5], "hit")
    assert [(one["value"], one["count"]) for one in views(chart)[0]["layer"][0]["data"]["values"]] == [
        ("0", 1), ("0.5", 1), ("1", 2),
    ]  # fmt: skip


def test_runs_share_bins() -> None:
    first, second = views(distribution_chart({"a": [x / 99 for x in range(100)], "b": [0.5] * 9}, "f1"))
    assert domain(first) == domain(second)
    assert domain(first, "y") == domain(second, "y")


def test_wide_latency_range_uses_log_scale() -> None:
    assert views(latency_chart([0.01, 0.02, 5.0]))[0]["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert views(latency_chart([0.0, 0.02, 5.0]))[0]["layer"][0]["encoding"]["x"]["scale"]["type"] == "linear"
    assert "p50 2.0000 s" in latency_chart([1.0, 2.0, 3.0]).description


def test_queries_at_one_position_are_one_larger_point() -> None:
    chart = scatter_chart([0.0, 0.0, 1.0], [1.0, 1.0, 0.5], ["q 1", "q/2", "q3"], links=True)
    svg = parse_svg(chart)
    assert len(marks(svg, "point")) == 2
    assert [one.get("href") for one in svg.iter(f"{SVG}a")] == ["#q/q%201", "#q/q3"]
    large, small = views(chart)[0]["layer"][1]["data"]["values"]
    assert large["size"] > small["size"]
    assert "q 1, q/2" in large["tip"]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_better_side_depends_on_metric_direction(higher_is_better: bool) -> None:
    chart = scatter_chart([0.0], [1.0], ["q"], names=("old", "new"), higher_is_better=higher_is_better)
    assert views(chart)[0]["layer"][1]["data"]["values"][0]["side"] == (
        "new better" if higher_is_better else "old better"
    )


def test_thousands_of_queries_become_a_heatmap() -> None:
    chart = GALLERY["thousands of queries"]()
    tips = [one["tip"] for one in views(chart)[0]["layer"][0]["data"]["values"]]
    assert sum(int(tip.split()[0].replace(",", "")) for tip in tips) == 3000
    assert not marks(parse_svg(chart), "point")


def test_gap_breaks_the_line() -> None:
    svg = parse_svg(GALLERY["a curve with a gap"]())
    assert len(marks(svg, "line")) == 2
    assert len(marks(svg, "point")) == 4


def test_the_boundaries_of_one_look_are_visible() -> None:
    dashed = [one for one in marks(parse_svg(GALLERY["one look"]()), "rule") if one.get("stroke-dasharray")]
    assert [float(one.get("x1", "")) < float(one.get("x2", "")) for one in dashed] == [True, True]


def test_lines_of_a_panel_have_distinct_styles() -> None:
    for view in views(GALLERY["many curves"]()):
        layer = next(one for one in view["layer"] if one["mark"]["type"] == "line")
        looks = list(
            zip(
                layer["encoding"]["color"]["scale"]["range"],
                layer["encoding"]["strokeDash"]["scale"]["range"],
                strict=True,
            )
        )
        assert len(looks) == len({(colour, tuple(dash)) for colour, dash in looks})


def test_links_stay_inside_the_page() -> None:
    chart = GALLERY["queries side by side"]()
    spec = json.loads(chart.to_json())
    for one in spec["vconcat"][0]["layer"][1]["data"]["values"]:
        one["href"] = "javascript:alert(1)"
    assert not list(parse_svg(Chart(spec)).iter(f"{SVG}a"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"mark": {"type": "arc"}}, "unknown mark type 'arc'", id="unknown mark"),
        pytest.param({"mark": {"type": "point", "shape": "wedge"}}, "unknown shape 'wedge'", id="unknown shape"),
    ],
)
def test_unsupported_spec_is_rejected(change: dict[str, Any], message: str) -> None:
    spec = json.loads(GALLERY["one row without an interval"]().to_json())
    spec["vconcat"][0]["layer"][0] |= change
    with pytest.raises(BadValueError, match=message):
        Chart(spec).to_svg()


@pytest.mark.parametrize("width", [0, 99, 20_000, -5])
def test_unreasonable_width_is_rejected(width: float) -> None:
    with pytest.raises(BadValueError, match="between 100 and 10,000 pixels"):
        GALLERY["no rows"]().to_svg(width=width)


@given(st.lists(st.floats(-1e290, 1e290), max_size=5), st.booleans())
def test_linear_range_contains_values_and_sorted_ticks(values: list[float], zero: bool) -> None:
    span = linear_range(values, zero=zero)
    slack = 1e-9 * max(abs(span.low), abs(span.high))
    assert all(span.low - slack <= value <= span.high + slack for value in values)
    assert list(span.ticks) == sorted(set(span.ticks))
    assert 2 <= len(span.ticks) <= 9
    assert len({format_tick(tick, span.tick_format) for tick in span.ticks}) == len(
        span.ticks
    ) or span.high - span.low < 1e-6 * abs(span.high)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=5))
def test_log_range_contains_values(values: list[float]) -> None:
    span = log_range(values)
    assert span.low <= min(values) * (1 + 1e-6)
    assert span.high >= max(values) * (1 - 1e-6)
    assert 0 < span.low < span.high
    assert 1 <= len(span.ticks) <= 12


@pytest.mark.parametrize(("highest", "top"), [(0, 1), (1, 1), (3, 3), (9, 10), (135, 150)])
def test_count_axis_has_integer_ticks(highest: float, top: float) -> None:
    span = count_range(highest)
    assert span.high == top
    assert all(tick == int(tick) for tick in span.ticks)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(0.25, ".2f", "0.25"), (-0.5, ".1f", "−0.5"), (-0.01, ".1f", "0.0"), (12.0, "d", "12"), (1e-7, ".6~g", "1e-7"), (2.5e30, ".6~g", "2.5e+30"), (10.0, ".6~g", "10")],
)  # fmt: skip
def test_tick_format_matches_d3(value: float, form: str, text: str) -> None:
    assert format_tick(value, form) == text


def test_heading_is_wrapped() -> None:
    chart = interval_chart([row("f1", 0.5)], title="a title that is long " * 5)
    shown = [one for one in texts(parse_svg(chart, width=300)) if "title" in one]
    assert len(shown) > 2
    assert " ".join(shown) == ("a title that is long " * 5).strip()


def test_overlapping_labels_are_thinned() -> None:
    chart = forest_chart([{"name": "f1", "delta": 0.001, "low": -0.01, "high": 0.01, "scale": "own"}])
    wide, narrow = (set(texts(parse_svg(chart, width=width))) for width in (900, 200))
    assert {"−0.010", "−0.005", "0.000", "0.005", "0.010"} <= wide
    assert {"−0.010", "0.000", "0.010"} <= narrow
    assert "0.005" not in narrow


@pytest.mark.parametrize(
    ("width", "shown"),
    [pytest.param(900, 8, id="one row"), pytest.param(300, 8, id="two rows"), pytest.param(250, 6, id="some left out")],
)
def test_labels_of_bars_do_not_overlap(width: float, shown: int) -> None:
    chart = distribution_chart([share / 7 for share in range(8) for _ in range(3)], "f1")
    boxes = []
    for one in parse_svg(chart, width=width).iter("{http://www.w3.org/2000/svg}text"):
        if one.text and (one.text[:2] == "0." or one.text in "01") and one.get("text-anchor") == "middle":
            half = measure_width(one.text, 11) / 2
            boxes.append((float(one.get("y", 0)), float(one.get("x", 0)) - half, float(one.get("x", 0)) + half))
    assert len(boxes) == shown
    rows = sorted(boxes)
    assert all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(rows))


_BACKGROUNDS = {"light": "#ffffff", "dark": "#16181c"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_contrast_with_background(theme: Any) -> None:
    for colour, least in [(TEXT, 7.0), (MUTED, 4.5), (GOOD, 3.0), (BAD, 3.0), *((one, 3.0) for one in SERIES)]:
        assert contrast(plain_colour(colour, theme), _BACKGROUNDS[theme]) >= least, colour


def contrast(one: str, other: str) -> float:
    """As the guidelines for accessible content define it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_unknown_tick_format_is_rejected() -> None:
    with pytest.raises(BadValueError, match="unknown number format '%'"):
        format_tick(1.0, "%")


@given(st.text(max_size=50), st.floats(10, 300))
def test_truncated_text_fits(text: str, limit: float) -> None:
    assert measure_width(truncate(text, limit, 11), 11) <= max(limit, measure_width("…", 11))


def test_hostile_names_are_escaped() -> None:
    shown = texts(parse_svg(interval_chart([row(name, 0.5) for name in HOSTILE])))
    assert "</text><script>alert(1)</script>" in shown
    assert "null\\u0000byte \\u001b[2J \\u007f \\u009f" in shown
    assert "right-to-left \\u202e override \\u2066" in shown
