"""Parsing of metrics after ``-m``: a name, ``name:option=value,...``, or a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.aliases import canonical_name
from ..core.errors import BadValueError

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.registry import Spec

__all__ = ["alias_notes", "parse_spec", "parse_specs"]

# The colon that starts the options: one in the brackets of `mean_latency[a:b]` does not.
_SHORT = re.compile(r"(?P<name>[^:\[\]]*(?:\[[^\[\]]*\])?[^:\[\]]*):(?P<options>.*)", re.DOTALL)
# Only a comma before `option=` separates, so that a value may be a list: `k_values=[1,5],as=mine`.
_COMMA = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)")

_BY_PRESET = {"map", "ndcg", "precision"}
"""Metrics whose definition depends on the preset."""


def parse_specs(texts: Iterable[str]) -> list[Spec]:
    """The specs, in order, without duplicates."""
    return [parse_spec(text) for text in dict.fromkeys(text.strip() for text in texts)]


def parse_spec(text: str) -> Spec:
    """One spec as the registry takes it.

    >>> parse_spec("recall@5"), parse_spec("ndcg@10:gain_scheme=linear,as=mine")
    ('recall@5', {'ndcg@10': {'gain_scheme': 'linear', 'as': 'mine'}})
    """
    if text.startswith("{"):
        return _from_json(text)
    short = _SHORT.fullmatch(text)
    return text if short is None else {short["name"].strip(): _options(short["options"], text)}


def alias_notes(specs: Iterable[Spec], rules: Conventions) -> list[str]:
    """Notes on metrics given by the name of another tool, and on conventions that differ from that tool."""
    notes, differs = [], False
    for spec in specs:
        name = spec if isinstance(spec, str) else next(iter(spec), "")
        ours = canonical_name(name)
        if ours is None or ours[0] == name:
            continue
        options = ",".join(f"{key}={value}" for key, value in ours[1].items())
        notes.append(f"{name} is called {ours[0]}{':' if options else ''}{options} here")
        differs |= ours[0].partition("@")[0] in _BY_PRESET
    if differs and rules.name != "trec":
        notes.append(f"the conventions are '{rules.name}'; --conventions trec computes as trec_eval does")
    return notes


def _from_json(text: str) -> Mapping[str, Any]:
    try:
        spec = json.loads(text)
    except ValueError as error:
        raise BadValueError(
            f'cannot read the metric {text!r}: not valid JSON ({error}); write \'{{"name": {{"option": value}}}}\''
        ) from None
    assert isinstance(spec, dict)  # it starts with a brace
    return spec


def _options(text: str, spec: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in _COMMA.split(text):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise BadValueError(f"cannot read the options of '{spec}'; write name:option=value,option=value")
        if key in options:
            raise BadValueError(f"metric '{spec}' names '{key}' twice")
        options[key] = value if key == "as" else _value(value)
    return options


def _value(text: str) -> Any:
    """The text parsed as JSON, or the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are not JSON, although the standard library accepts them
