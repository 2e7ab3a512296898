"""SVG elements as escaped text; no style, no script, no external references."""

from __future__ import annotations

from xml.sax.saxutils import escape

from ..labels import strip_invalid_xml

__all__ = ["Attribute", "element", "escape_text", "path_data"]

Attribute = str | float | None


def element(name: str, attributes: dict[str, Attribute] | None = None, *children: str) -> str:
    """An element. Children are markup already: ``escape_text`` escapes text. An attribute of ``None`` is left out."""
    attribute_text = "".join(
        f' {key}="{_value(value)}"' for key, value in (attributes or {}).items() if value is not None and value != ""
    )
    return f"<{name}{attribute_text}>{''.join(children)}</{name}>" if children else f"<{name}{attribute_text}/>"


def escape_text(text: str) -> str:
    """Escape a text for use as content."""
    return escape(strip_invalid_xml(text))


def path_data(places: list[tuple[float, float]]) -> str:
    """The path data of a line through points."""
    return "M" + "L".join(f"{_number(x)},{_number(y)}" for x, y in places)


def _value(value: str | float) -> str:
    return escape(strip_invalid_xml(value), {'"': "&quot;"}) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
