"""Charts of values and differences with their intervals and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from ...core.grouping import group_pairs
from .chart import (
    MAX_ROWS,
    ROW_HEIGHT,
    TOOLTIP,
    Chart,
    Json,
    Row,
    band_channel,
    build_spec,
    describe_row,
    group_into_panels,
    has_unit_range,
    list_first,
    message_spec,
    number_channel,
    omitted_rows_note,
    row_values,
    style_channel,
    symbol_channels,
    text_layer,
    view,
    with_field,
)
from .layout import (
    BAD,
    GOOD,
    MUTED,
    SERIES,
    TEXT,
    AxisRange,
    clean_label,
    describe,
    finite_number,
    format_number,
    linear_range,
    unique_labels,
)

VERDICTS: Mapping[str, tuple[str, str]] = {
    "better": ("triangle-up", GOOD),
    "worse": ("triangle-down", BAD),
    "equal": ("square", SERIES[0]),
    "inconclusive": ("circle", MUTED),
    "not tested": ("diamond", MUTED),
}
"""The shape and colour of each verdict."""
_NOT_TESTED = "not tested"
_PARTS = {"retrieval": ("square", SERIES[0]), "generation": ("triangle-up", SERIES[1]), "together": ("circle", MUTED)}


def forest_chart(
    rows: Sequence[Row],
    *,
    title: str = "Differences, B − A",
    names: tuple[str, str] = ("A", "B"),
    exploratory_below: bool = False,
) -> Chart:
    """A difference with its interval and verdict per metric.

    A row has ``name`` and ``delta``, and may have ``low`` and ``high``; ``verdict`` (``better``, ``worse``, ``equal``,
    ``inconclusive``); ``primary``, without which a verdict is not shown; ``group``, ``range``, ``scale`` and ``n`` as
    in ``interval_chart``; and ``note``, shown instead of a missing difference. ``names`` are those of the runs.
    With ``exploratory_below``, rows that are not primary follow below a line.
    """
    heading = clean_label(title)
    kept = list(rows[:MAX_ROWS])
    if not kept:
        return Chart(message_spec(heading, "no metric was compared"))
    verdicts = [_verdict(row) for row in kept if row_values(row, "delta")]
    present = {name: style for name, style in VERDICTS.items() if name in verdicts}
    exploratory = [row for row in kept if not row.get("primary", True)] if exploratory_below else []
    above = group_into_panels([row for row in kept if row not in exploratory], "delta")
    views = [
        _forest_panel(members, clean_label(group, longest=80), present, legend=index == 0)
        for index, (group, members) in enumerate([*above, *group_into_panels(exploratory, "delta")])
    ]
    if exploratory:
        views.insert(len(above), _exploratory_line())
    first, second = (clean_label(name, longest=40) for name in names)
    subtitle = [f"right of zero: {second} has more; the verdict says whether that is better"]
    subtitle += filter(None, [omitted_rows_note(rows)])
    counts = [f"{verdicts.count(name)} {name}" for name in present]
    listed = list_first(
        [
            f"{describe_row(clean_label(row.get('name', '')), row_values(row, 'delta'), signed=True)}, {_verdict(row)}"
            for row in kept
            if row_values(row, "delta")
        ],
        "metric",
    )
    text = describe([f"{second} against {first}: {', '.join(counts) or 'nothing could be compared'}", listed])
    return Chart(build_spec(views, title=heading, description=text, subtitle=subtitle))


def _exploratory_line() -> Json:
    """A line with a heading, between primary and exploratory metrics."""
    row: Json = {"text": "Exploratory metrics: no verdict, and nothing is adjusted"}
    rule = {"type": "rule", "color": MUTED, "strokeWidth": 1}
    line: Json = {"data": {"values": [row]}, "mark": rule, "encoding": {"y": {"value": 2}}}
    return view([line, text_layer([row], {"value": 0}, {"value": 14}, colour=MUTED, dx=0)], height=20)


def _verdict(row: Row) -> str:
    verdict = str(row.get("verdict") or _NOT_TESTED)
    return verdict if verdict in VERDICTS and row.get("primary", True) else _NOT_TESTED


def _forest_panel(rows: Sequence[Row], title: str, present: Mapping[str, tuple[str, str]], *, legend: bool) -> Json:
    def texts(label: str, row: Row, ends: Sequence[float]) -> Json:
        verdict = _verdict(row)
        words = _signed_text(ends[0]) + ("" if verdict == _NOT_TESTED else f" {verdict}")
        tip = f"{describe_row(label, ends, signed=True)}, {verdict}" + (f", n = {row['n']}" if "n" in row else "")
        return {"verdict": verdict, "text": words, "tip": tip}

    return _difference_panel(rows, title, symbol_channels("verdict", present, shown=legend), texts)


def _difference_panel(
    rows: Sequence[Row], title: str, symbols: Json, texts: Callable[[str, Row, Sequence[float]], Json]
) -> Json:
    """Differences on one axis, around a zero line. ``texts`` gives the label and the tooltip of a row."""
    labels = unique_labels(row.get("name", "") for row in rows)
    span = linear_range(chain.from_iterable(row_values(row, "delta") for row in rows), zero=True)
    across, along = band_channel("name", labels), number_channel("delta", span)
    valued = [(label, row_values(row, "delta"), row) for label, row in zip(labels, rows, strict=True)]
    # Without an interval the only number is both its ends.
    drawn: list[Json] = [
        {"name": label, "delta": ends[0], "low": ends[-2:][0], "high": ends[-1], **texts(label, row, ends)}
        for label, ends, row in valued
        if ends
    ]
    missing = _missing_rows(labels, rows, "delta", "not compared")
    zero = {"type": "rule", "color": MUTED, "strokeWidth": 1}
    intervals = {"x": with_field(along, "low"), "x2": {"field": "high"}, "y": across, "color": symbols["color"]}
    points = {"type": "point", "filled": True, "opacity": 1, "size": 80}
    ranged = [row for row in drawn if row["low"] != row["high"]]
    layers: list[Json] = [
        {"data": {"values": [{"delta": 0}]}, "mark": zero, "encoding": {"x": along}},
        {"data": {"values": ranged}, "mark": {"type": "rule", "strokeWidth": 2}, "encoding": intervals},
        {
            "data": {"values": drawn},
            "mark": points,
            "encoding": {"x": along, "y": across, **symbols, "tooltip": TOOLTIP},
        },
    ]
    return view([*layers, *_row_texts(drawn, missing, across)], height=ROW_HEIGHT * len(rows), title=title)


def _missing_rows(labels: Sequence[str], rows: Sequence[Row], key: str, otherwise: str) -> list[Json]:
    """The rows without a value, each with its note."""
    return [
        {"name": label, "text": clean_label(row.get("note") or otherwise, longest=60)}
        for label, row in zip(labels, rows, strict=True)
        if not row_values(row, key)
    ]


def _row_texts(drawn: Sequence[Json], missing: Sequence[Json], across: Json) -> list[Json]:
    """The layers of the texts beside rows, and of notes in rows without a value."""
    layers = [text_layer(drawn, {"value": "width"}, across, colour=TEXT, dx=10)]
    return [*layers, text_layer(missing, {"value": 0}, across, colour=MUTED, dx=4)] if missing else layers


def split_chart(rows: Sequence[Row], *, title: str = "Where the difference comes from") -> Chart:
    """Each metric's difference, and its parts from retrieval and from generation.

    A row has ``name``, and ``retrieval``, ``generation`` and ``delta``: a number each, or ``{value, low, high}``.
    """
    heading = clean_label(title)
    kept = list(rows[:40])
    if not kept:
        return Chart(message_spec(heading, "no difference was split"))
    views, descriptions = [], []
    for row in kept:
        label = clean_label(row.get("name", ""), longest=80)
        parts = [_part_row(part, row.get("delta" if part == "together" else part)) for part in _PARTS]
        views.append(_split_panel(label, parts))
        amounts = [f"{part['name']} {_signed_text(ends[0])}" for part in parts if (ends := row_values(part, "delta"))]
        descriptions.append(f"{label}: {', '.join(amounts) or 'no value'}")
    more = [f"{len(rows) - len(kept)} more metrics not drawn"] if len(rows) > len(kept) else []
    text = describe([list_first(descriptions, "metric"), *more])
    return Chart(build_spec(views, title=heading, description=text, subtitle=more))


def _part_row(name: str, part: Any) -> Row:
    values = part if isinstance(part, Mapping) else {"value": part}
    return {**values, "name": name, "delta": values.get("value"), "note": _NO_VALUE}


def _split_panel(label: str, parts: Sequence[Row]) -> Json:
    def texts(part: str, row: Row, ends: Sequence[float]) -> Json:
        return {"text": _signed_text(ends[0]), "tip": describe_row(f"{label}, {part}", ends, signed=True)}

    return _difference_panel(parts, label, symbol_channels("name", _PARTS, shown=False), texts)


def _signed_text(number: float) -> str:
    return f"{'+' if number > 0 else ''}{format_number(number)}"


# --- values with their intervals: a dot and a line per metric, metrics of one kind on one axis -----------------------

_RELIABLE, _UNRELIABLE = "95 % interval", "may be too narrow: few or skewed samples"
_NO_VALUE = "no value"


def interval_chart(rows: Sequence[Row], *, title: str = "Scores with 95 % intervals") -> Chart:
    """A dot and an interval per row, grouped.

    A row has ``name`` and ``value``, and may have ``low`` and ``high``; ``group``, its heading; ``range``, the range
    of its metric (by default 0 to 1 for values between them); ``scale``, a name that rows on one axis share;
    ``doubt``, true where the interval may be too narrow; ``note``, shown instead of a missing value; and ``n``.
    """
    heading = clean_label(title)
    kept = list(rows[:MAX_ROWS])
    if not kept:
        return Chart(message_spec(heading, "there are no results"))
    views = _interval_panels(group_into_panels(kept))
    without = sum(not row_values(row) for row in kept)
    missing, more = f"{without} of {len(kept)} have no value" if without else "", omitted_rows_note(rows)
    text = describe([_summary(kept), missing, more])
    return Chart(build_spec(views, title=heading, description=text, subtitle=[more] if more else ()))


def slices_chart(rows: Sequence[Row], name: str, *, whole: float | None = None, title: str | None = None) -> Chart:
    """One metric in every group of every slice.

    Rows have ``slice``, ``group``, ``value`` and the optional keys of ``interval_chart``. ``whole`` is the value over
    all samples, drawn as a line.
    """
    heading = clean_label(title or f"{name} by slice")
    kept = list(rows[:MAX_ROWS])
    if not kept:
        return Chart(message_spec(heading, "there are no slices"))
    overall = finite_number(whole)
    panels: dict[str, list[Row]] = group_pairs(
        (str(row.get("slice") or ""), {**row, "name": row.get("group", "")}) for row in kept
    )
    span = value_span(kept, extra=[] if overall is None else [overall])
    views = _interval_panels(list(panels.items()), span=span, whole=overall)
    subtitle = [] if overall is None else [f"the dashed line is the value over all samples, {format_number(overall)}"]
    subtitle += filter(None, [omitted_rows_note(rows, "group")])
    text = describe([_summary([{**row, "name": f"{row.get('slice')} {row.get('group')}"} for row in kept]), *subtitle])
    return Chart(build_spec(views, title=heading, description=text, subtitle=subtitle))


def value_span(rows: Sequence[Row], extra: Sequence[float] = ()) -> AxisRange:
    """The axis of values: from 0 to 1 where all metrics lie there, else from 0 to a round number."""
    ends = [*chain.from_iterable(row_values(row) for row in rows), *extra]
    if all(map(has_unit_range, rows)) and all(0 <= end <= 1 for end in ends):
        return linear_range((), within=(0.0, 1.0))
    return linear_range(ends, zero=True)


def _interval_panels(
    panels: Sequence[tuple[str, list[Row]]], *, span: AxisRange | None = None, whole: float | None = None
) -> list[Json]:
    """Panels of rows with their intervals; the first explains dashed intervals, where any panel has them."""
    every = chain.from_iterable(rows for _, rows in panels)
    unreliable = any(row.get("doubt") and len(row_values(row)) == 3 for row in every)
    return [
        _interval_panel(
            rows,
            clean_label(title, longest=80),
            span or value_span(rows),
            whole,
            unreliable=unreliable,
            legend=index == 0,
        )
        for index, (title, rows) in enumerate(panels)
    ]


def _interval_panel(
    rows: Sequence[Row], title: str, span: AxisRange, whole: float | None, *, unreliable: bool, legend: bool
) -> Json:
    labels = unique_labels(row.get("name", "") for row in rows)
    across, along = band_channel("name", labels), number_channel("value", span)
    valued = [(label, row_values(row), row) for label, row in zip(labels, rows, strict=True) if row_values(row)]
    drawn: list[Json] = [{"name": label, "value": ends[0], "tip": _row_text(label, row)} for label, ends, row in valued]
    words: list[Json] = [{"name": label, "text": format_number(ends[0])} for label, ends, _ in valued]
    lines: list[Json] = [
        {
            "name": label,
            "low": ends[1],
            "high": ends[2],
            "sure": _UNRELIABLE if row.get("doubt") else _RELIABLE,
            "tip": _row_text(label, row),
        }
        for label, ends, row in valued
        if len(ends) == 3
    ]
    missing = _missing_rows(labels, rows, "value", _NO_VALUE)
    layers: list[Json] = []
    if whole is not None:
        rule = {"type": "rule", "color": MUTED, "strokeDash": [4, 3]}
        layers.append({"data": {"values": [{"value": whole}]}, "mark": rule, "encoding": {"x": along}})
    if lines or (unreliable and legend):
        encoding: Json = {"x": with_field(along, "low"), "x2": {"field": "high"}, "y": across, "tooltip": TOOLTIP}
        if unreliable:
            encoding["strokeDash"] = style_channel("sure", {_RELIABLE: [1, 0], _UNRELIABLE: [3, 2]}, shown=legend)
        mark = {"type": "rule", "color": SERIES[0], "strokeWidth": 2}
        layers.append({"data": {"values": lines}, "mark": mark, "encoding": encoding})
    points = {"type": "point", "filled": True, "opacity": 1, "size": 60, "color": SERIES[0]}
    encoding = {"x": along, "y": across, "tooltip": TOOLTIP}
    layers.append({"data": {"values": drawn}, "mark": points, "encoding": encoding})
    layers += _row_texts(words, missing, across)
    return view(layers, height=ROW_HEIGHT * len(rows), title=title)


def _row_text(label: str, row: Row) -> str:
    text, n = describe_row(label, row_values(row)), row.get("n")
    return f"{text}, n = {n}" if n is not None else text


def _summary(rows: Sequence[Row]) -> str:
    """The first few values as text."""
    shown = [_row_text(clean_label(row.get("name", "")), row) for row in rows if row_values(row)]
    return list_first(shown, "value") or "no row has a value"
