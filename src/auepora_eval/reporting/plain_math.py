r"""Formulas for a terminal: the LaTeX subset of the docstrings as plain characters."""

import re

__all__ = ["plain_math"]

_SYMBOLS = {
    r"\cap": "∩", r"\cup": "∪", r"\sum": "Σ", r"\le": "≤", r"\ge": "≥", r"\ne": "≠", r"\emptyset": "∅", r"\beta": "β",
    r"\cdot": "·", r"\times": "×", r"\log": "log", r"\min": "min", r"\max": "max", r"\in": "∈", r"\mid": "|",
    r"\subseteq": "⊆", r"\nsubseteq": "⊈", r"\exists": "∃", r"\forall": "∀", r"\wedge": "∧", r"\models": "⊨",
    r"\exp": "exp", r"\ln": "ln", r"\_": "_", r"\Big": "",
    r"\prod": "Π", r"\quad": "   ", r"\qquad": "     ", r"\,": "", r"\;": " ", r"\{": "{", r"\}": "}",
}  # fmt: skip
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")


def plain_math(latex: str) -> str:
    r"""Convert a formula to plain characters.

    >>> plain_math(r"\frac{|G \cap R_k|}{\min(k, |R|)}")
    '|G ∩ R_k| / min(k, |R|)'
    """
    text = re.sub(r"\\(?:text|mathrm)\s*\{([^{}]*)\}", r"\1", latex).replace(r"\tfrac", r"\frac")
    while r"\frac" in text:
        start = text.index(r"\frac")
        top, after = _read_braces(text, start + len(r"\frac"))
        bottom, end = _read_braces(text, after)
        text = f"{text[:start]}{_parenthesize(top)} / {_parenthesize(bottom)}{text[end:]}"
    text = _COMMAND.sub(lambda match: _SYMBOLS.get(match[0], match[0]), text)
    text = re.sub(r"([_^])\{([^{}]*)\}", lambda m: f"{m[1]}{m[2] if ' ' not in m[2] else f'({m[2]})'}", text)
    return re.sub(r"(?<=\S) {2}(?=\S)", " ", text).strip()


def _read_braces(text: str, start: int) -> tuple[str, int]:
    """The content of the braces that open at ``start``, and where they end."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + 1 : position], position + 1
    raise ValueError(f"unbalanced braces in {text!r}")


def _parenthesize(part: str) -> str:
    """The part in parentheses where a bar would otherwise be ambiguous."""
    inner = re.sub(r"\([^()]*\)|\|[^|]*\|", "", part)
    return f"({part})" if re.search(r"[-+/ ]|\\sum|\\frac", inner.strip()) else part
