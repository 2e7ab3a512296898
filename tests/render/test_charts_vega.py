"""Our SVG compared with Vega: the schema accepts every spec, and every mark has the same position."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from auepora_eval.render.charts.chart import Chart
from helpers import requirements
from helpers.chart_gallery import GALLERY
from helpers.checks import for_each

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]
CHART_NAMES = {make: name for name, make in GALLERY.items()}
every_chart = for_each(GALLERY.values(), name=CHART_NAMES.__getitem__)
PATHS = ("line", "area")
AS_ALTAIR = ("values in two groups", "hostile names", "many curves", "latency of two runs")
"""Charts that are made as Altair objects, too: each part is validated again, which takes seconds."""
_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_KINDS = {"symbol": "point", "rule": "rule", "rect": "rect", "text": "text"}


def translation(element: ElementTree.Element) -> tuple[float, float]:
    found = re.search(rf"translate\(({_NUMBER}),({_NUMBER})\)", element.get("transform", ""))
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


def vega_boxes(svg: str) -> dict[tuple[int, int], list[Box]]:
    """By view and layer the boxes around Vega's marks: a point for symbols and texts."""
    boxes: dict[tuple[int, int], list[Box]] = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        name = re.match(r"mark-(\w+) role-mark concat_(\d+)_layer_(\d+)_marks", group.get("class", ""))
        if name is None or name[1] not in _KINDS:
            continue
        for mark in group:
            inner = next(iter(mark)) if mark.tag == f"{SVG}a" else mark
            x, y = translation(inner)
            if name[1] == "rule":
                box = (x, y, x + float(inner.get("x2", 0)), y + float(inner.get("y2", 0)))
            elif name[1] == "rect":
                sides = re.match(rf"M({_NUMBER}),({_NUMBER})h({_NUMBER})v({_NUMBER})h", inner.get("d", ""))
                assert sides is not None, inner.get("d")
                left, top, width, height = map(float, sides.groups())
                box = (x + left, y + top, x + left + width, y + top + height)
            else:
                box = (x, y, x, y)
            boxes.setdefault((int(name[2]), int(name[3])), []).append(box)
    return boxes


def own_boxes(svg: str) -> dict[tuple[int, int], list[Box]]:
    """The same of ours."""
    boxes: dict[tuple[int, int], list[Box]] = {}
    drawn = [one for one in ElementTree.fromstring(svg).iter(f"{SVG}g") if one.get("class") == "view"]
    for number, view in enumerate(drawn):
        for group in view.iter(f"{SVG}g"):
            name = re.match(r"marks mark-(\w+) layer-(\d+)", group.get("class", ""))
            if name is None or name[1] not in ("point", "rule", "bar", "rect", "text"):
                continue
            for mark in group:
                inner = next(iter(mark)) if mark.tag == f"{SVG}a" else mark
                boxes.setdefault((number, int(name[2])), []).append(box_of(inner))
    return boxes


def box_of(mark: ElementTree.Element) -> Box:
    def number(key: str) -> float:
        return float(mark.get(key, 0))

    kind = mark.tag.removeprefix(SVG)
    if kind == "line":
        return number("x1"), number("y1"), number("x2"), number("y2")
    if kind == "rect":
        return number("x"), number("y"), number("x") + number("width"), number("y") + number("height")
    if kind == "circle":
        return number("cx"), number("cy"), number("cx"), number("cy")
    if kind == "text":
        return number("x"), number("y"), number("x"), number("y")
    corners = [tuple(map(float, one.split(","))) for one in mark.get("points", "").split()]
    x = (min(one[0] for one in corners) + max(one[0] for one in corners)) / 2
    y = (min(one[1] for one in corners) + max(one[1] for one in corners)) / 2
    return x, y, x, y


def bounding_box(box: Box) -> Box:
    """Whichever end comes first."""
    return min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3])


def check_marks(make: Callable[[], Chart]) -> None:
    vega = requirements.need("vl_convert")
    chart = make()
    vega_svg, own_svg = vega.vegalite_to_svg(dict(chart.spec), show_warnings=True), chart.to_svg()
    theirs, ours = vega_boxes(vega_svg), own_boxes(own_svg)
    assert {place: len(found) for place, found in theirs.items() if found} == {p: len(f) for p, f in ours.items() if f}
    for place, found in ours.items():
        kind = chart.spec["vconcat"][place[0]]["layer"][place[1]]["mark"]["type"]
        for own, other in zip(map(bounding_box, found), map(bounding_box, theirs[place]), strict=True):
            shown = own[:1] if kind == "text" else own  # the height of letters is everyone's own
            assert shown == pytest.approx(other[: len(shown)], abs=0.51 if kind in ("bar", "rect") else 0.05), place
    groups = list(ElementTree.fromstring(own_svg).iter(f"{SVG}g"))
    for kind in PATHS:
        drawn = sum(len(one) for one in groups if f"mark-{kind}" in one.get("class", "").split())
        assert drawn == len(re.findall(rf"mark-{kind} role-mark concat_", vega_svg))


def test_marks_match_vega_positions(capfd: pytest.CaptureFixture[str]) -> None:
    every_chart(check_marks)()
    assert capfd.readouterr().err == "", "Vega warns of something"


@pytest.mark.slow
@every_chart
def test_specs_validate_against_vega_lite_schema(make: Callable[[], Chart]) -> None:
    altair = requirements.need("altair")
    chart = make()
    altair.TopLevelVConcatSpec.validate(dict(chart.spec))
    if CHART_NAMES[make] in AS_ALTAIR:
        made = chart.to_altair()
        assert isinstance(made, altair.VConcatChart)
        assert made.to_dict(validate=False)["description"] == chart.description


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_png_has_theme_background(theme: str, tmp_path: Path) -> None:
    requirements.need("vl_convert")
    from auepora_eval.render.charts.layout import require_theme

    chart = GALLERY["values in two groups"]()
    path = chart.save(tmp_path / "chart.png", theme=require_theme(theme), width=700)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    width = int.from_bytes(content[16:20], "big")
    assert width == pytest.approx(1400, abs=120)  # two pixels for one; letters are not as wide everywhere
