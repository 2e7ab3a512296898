"""Our own drawing of specs as SVG.

render   a whole spec: title, views below each other
views    one view: scales, axes, layers, legend
marks    points, rules, bars, lines, areas, texts
symbols  the shapes of points
scales   where a value stands
legends  what colours, shapes and dashes mean
formats  numbers as axes write them
letters  how wide a text is
xml      elements, with everything escaped
"""

from .render import render_svg

__all__ = ["render_svg"]
