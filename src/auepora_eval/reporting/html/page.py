"""The HTML page of a report: sections, style, script and a strict content security policy in one file."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...core.errors import BadValueError
from ..control_characters import escape_control_characters
from .blocks import Figure, PageFragment, Report

if TYPE_CHECKING:
    from jinja2 import Environment

MEDIUM, NARROW = 400, 340
"""Charts wider than the first value get a second rendering, as wide as the second value, for phones."""
MAX_TEXT_LENGTH = 1500
"""The default maximum length of a text."""
_CODE_SPAN = re.compile(r"`([^`\n]{1,200})`")
_BREAK_POINTS = re.compile(r"(?<=[a-z0-9][_@\[,])(?=[a-z0-9])")
_IDS = re.compile(r"chart-[0-9a-f]{12}-(title|desc)")


def render_page(report: Report, browser: PageFragment | None = None) -> str:
    """Render a report as a page, with the markup, style, script and data of a fragment."""
    from markupsafe import Markup

    style = "\n".join(filter(None, [_asset("theme.css"), getattr(browser, "css", "")])).strip()
    script = "\n".join(filter(None, [_asset("page.js"), getattr(browser, "script", "")])).strip()
    for name, text in (("style", style), ("script", script)):
        if f"</{name}" in text.lower():
            raise BadValueError(f"the page's {name} contains its own closing tag")
    return (
        _templates()
        .get_template("page.html")
        .render(
            report=report,
            browser=browser,
            data=[]
            if browser is None
            else [(name, kind, Markup(_escape_script_data(text))) for name, kind, text in browser.data],  # noqa: S704
            style=Markup(style),  # noqa: S704 -- our own, and checked above
            script=Markup(script),  # noqa: S704
            policy=_policy(style, script),
            drawn=_ChartRenderer(),
        )
    )


def _escape_script_data(text: str) -> str:
    """Escape data for a script element, so that it cannot close the element."""
    return text.replace("<", "\\u003c")


def _policy(style: str, script: str) -> str:
    """The content security policy: only the page's own script, style and inline images."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return files(__package__ or "").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("auepora_eval.reporting.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_display_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {"kind_of": lambda block: type(block).__name__, "at": _percent}
    environment.globals |= helpers
    environment.filters |= {"breakable": _with_break_points, "cut": _truncate, "whole": _uncut, "ticked": _code_spans}
    return environment


class _UncutText(str):
    """A text that must not be truncated."""

    __slots__ = ()


def _uncut(text: str) -> _UncutText:
    return _UncutText(escape_control_characters(text))


def _display_text(value: Any) -> Any:
    """A text for display: control and bidirectional characters are escaped, and very long texts are truncated."""
    return escape_control_characters(_truncate(value, MAX_TEXT_LENGTH)) if type(value) is str else value


def _code_spans(text: str, longest: int = MAX_TEXT_LENGTH) -> Any:
    """A text with parts between `backticks` as code; everything is escaped."""
    from markupsafe import Markup

    parts = _CODE_SPAN.split(_display_text(_truncate(text, longest)))
    return Markup("").join(Markup("<code>{}</code>").format(one) if at % 2 else one for at, one in enumerate(parts))


def _with_break_points(text: str) -> Any:
    """A text with line break opportunities after the punctuation of metric names."""
    from markupsafe import Markup

    return Markup("<wbr>").join(_BREAK_POINTS.split(_display_text(text)))


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class _ChartRenderer:
    """Renders the figures of one page with unique element ids."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, figure: Figure) -> list[tuple[str, Any]]:
        """The SVG, and a second one for narrow screens where it is wide."""
        if figure.width <= MEDIUM:
            return [("", self._one(figure, figure.width))]
        return [("usual", self._one(figure, figure.width)), ("narrow", self._one(figure, NARROW))]

    def _one(self, figure: Figure, width: int) -> Any:
        from markupsafe import Markup

        self._count += 1
        # The four ids are at its very beginning: aria-labelledby, title and desc.
        drawn = _IDS.sub(rf"chart-{self._count}-\1", figure.chart.to_svg(width=width), count=4)
        return Markup(drawn)  # noqa: S704 -- our own SVG, with escaped text


def _percent(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.1f}"
