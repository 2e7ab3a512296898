"""Conventions: the definitions people disagree about, as named values; and metric signatures, which record them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

from ..errors import BadTypeError, BadValueError, SignatureMismatchError, UnknownConventionError
from ..options import Ge, Le, PositiveInt, check_options, option_types

RankCutOff = Annotated[int, Ge(1), Le(2**40, shown=False)]
"""The number of positions of a ranking that count."""
Match = Literal["id", "span", "text", "parent"]
"""How gold is matched with retrieved documents."""
MATCHES: tuple[Match, ...] = get_args(Match)
"""The ways, the finest first."""
ID_PRESETS = frozenset({"trec", "paper", "paper-positives", "client"})
"""Presets that compare ids by definition."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """One frozen set of definitions. ``Conventions.of("trec", min_relevance=2)`` starts from a preset.

    Example:
        >>> Conventions.of("trec", min_relevance=2).ap
        'gold'
        >>> evaluate(samples, outputs, ["map"], conventions="trec")[0].signature
        'map|ap:gold|empty:judged|missing:skip|v1'
    """

    name: str = "auepora"
    ap: Literal["hits", "capped", "gold"] = "hits"
    """Average precision divides by the hits in R_k, by min(|G|, k), or by |G|."""
    precision: Literal["returned", "k"] = "returned"
    """P@k divides by min(k, |R|) or by k."""
    empty_gold: Literal["skip", "zero", "judged"] = "skip"
    """A query with nothing relevant is skipped, scores 0, or scores 0 only if it has any judgement at all."""
    gain: Literal["binary", "exponential", "linear"] = "binary"
    """nDCG's gain of a level: 1, 2^level - 1, or the level."""
    min_relevance: int = 1
    """The lowest level that counts as relevant. Gains ignore it, as in trec_eval."""
    missing: Literal["fail", "skip", "zero"] = "fail"
    """A sample without any output: a system failure, skipped, or scored as if nothing had been returned."""
    depth: RankCutOff | None = None
    """Cut every ranking here before anything is computed (trec_eval -M)."""
    k_values: tuple[PositiveInt, ...] = ()
    """The cut-offs this school reports; empty means the ones requested."""
    k_policy: Literal["written", "effective"] = "written"
    """A cut-off divides as written, or as min(k, |R|) where a list is shorter (K_eff)."""
    mrr_cut: RankCutOff | None = None
    """The cut-off of an ``mrr`` that names none."""
    duplicates: Literal["first", "error"] = "first"
    """An id returned twice counts at its first position (and occupies both), or is an error."""
    on_system_failure: Literal["worst", "exclude"] = "worst"
    """A failed answer counts at the metric's worst value, or leaves the mean."""
    match: Match = "id"
    """Gold is matched with retrieved documents by id, by span, by text, or by parent document."""

    def __post_init__(self) -> None:
        for key, hint in option_types(Conventions).items():
            if get_origin(hint) is Literal and getattr(self, key) not in get_args(hint):
                raise UnknownConventionError(f"value for the convention '{key}':", getattr(self, key), get_args(hint))
        check_options(self)
        object.__setattr__(self, "k_values", tuple(self.k_values))
        if self.match != "id" and self.name in ID_PRESETS:
            raise BadValueError(
                f"the conventions '{self.name}' compare document ids; gold cannot be matched by '{self.match}' under "
                "them; use the conventions 'auepora' or 'golden', or match by 'id'"
            )

    @classmethod
    def of(cls, preset: str | Conventions | None = None, /, **choices: Any) -> Conventions:
        """The preset of that name (default ``auepora``), with some values replaced."""
        if preset is None:
            preset = "auepora"
        if isinstance(preset, str):
            try:
                preset = PRESETS[preset]
            except KeyError:
                raise UnknownConventionError("conventions", preset, PRESETS) from None
        if not isinstance(preset, Conventions):
            raise BadTypeError(f"conventions are the name of a preset or a Conventions object, not {preset!r}")
        unknown = [key for key in choices if key not in CONVENTION_NAMES]
        if unknown:
            raise UnknownConventionError("convention", unknown[0], CONVENTION_NAMES)
        return replace(preset, **choices) if choices else preset

    def changes(self) -> dict[str, Any]:
        """The values that differ from the preset of the same name."""
        base = PRESETS.get(self.name, PRESETS["auepora"])
        return {key: getattr(self, key) for key in CONVENTION_NAMES if getattr(self, key) != getattr(base, key)}


CONVENTION_NAMES = tuple(f.name for f in fields(Conventions) if f.name != "name")


PRESETS: dict[str, Conventions] = {
    preset.name: preset
    for preset in (
        Conventions(name="auepora"),
        Conventions(name="paper", ap="capped", empty_gold="zero", k_values=(3, 5, 10)),
        Conventions(name="paper-positives", ap="capped", empty_gold="skip", k_values=(3, 5, 10)),
        Conventions(name="golden", ap="gold", precision="k", k_values=(1, 3, 5, 10), mrr_cut=10),
        Conventions(name="client", ap="gold", precision="k", k_values=(1, 3, 5, 10, 20)),
        Conventions(
            name="trec",
            ap="gold",
            precision="k",
            empty_gold="judged",
            gain="linear",
            missing="skip",
            duplicates="error",
        ),
    )
}


# --- signatures: the string that names a metric with every option and convention that changes its value --------------


def function_name(function: object, *, module: bool = True) -> str:
    """The name of a function in a signature, optionally with its module.

    Two lambdas have the same name; a hash of their code and plain closure values distinguishes them.
    """
    kind = type(function)
    name = str(getattr(function, "__qualname__", kind.__qualname__))
    where = getattr(function, "__module__", None) or kind.__module__
    code = getattr(function, "__code__", None)
    if "<" in name and code is not None:
        cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        # Only plain values: the representation of others may change from run to run.
        carried = [value for value in cells if isinstance(value, (str, int, float, bool, type(None)))]
        made_of = repr((code.co_code, [c for c in code.co_consts if not hasattr(c, "co_code")], code.co_names, carried))
        name += f"-{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"
    return (f"{where}.{name}" if module else name).replace("|", "/")


@dataclass(frozen=True, slots=True)
class Signature:
    """A metric name, the options that changed its value, and the version of its formula.

    >>> str(Signature("map@10", {"ap": "capped", "empty": "zero"}))
    'map@10|ap:capped|empty:zero|v1'
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    def __post_init__(self) -> None:
        for key, value in self.options.items():
            if "|" in key or ":" in key or "|" in value:
                raise BadValueError(
                    f"a signature cannot contain the option {key!r}: {value!r} ('|' and ':' are reserved)"
                )
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.options.items()), f"v{self.version}"])

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[Signature], tuple[str, dict[str, str], int]]:
        return type(self), (self.name, dict(self.options), self.version)

    def with_options(self, **options: str) -> Signature:
        """This signature with further options, such as the depth of the run that was scored."""
        return Signature(self.name, {**self.options, **options}, self.version)

    @classmethod
    def parse(cls, text: str) -> Signature:
        """The signature from its string form."""
        name, *parts = text.split("|")
        if not name or not parts or not (parts[-1][:1] == "v" and parts[-1][1:].isdigit()):
            raise BadValueError(f"{text!r} is not a signature; one looks like 'map@10|ap:capped|empty:zero|v1'")
        options = {}
        for part in parts[:-1]:
            key, colon, value = part.partition(":")
            if not colon:
                raise BadValueError(f"{text!r} is not a signature: {part!r} lacks a ':'")
            options[key] = value
        return cls(name, options, int(parts[-1][1:]))

    def differences(self, other: Signature) -> list[str]:
        """The fields in which two signatures differ; empty where their values are comparable."""
        fields = ["name"] if self.name != other.name else []
        keys = dict.fromkeys([*self.options, *other.options])
        fields += [key for key in keys if self.options.get(key) != other.options.get(key)]
        return fields + (["version"] if self.version != other.version else [])

    def require_same(self, other: Signature) -> None:
        """Raise ``SignatureMismatchError`` naming the fields, unless both are equal."""
        if fields := self.differences(other):
            raise SignatureMismatchError(str(self), str(other), fields)


def signature_number(value: float) -> str:
    """A number as written in a signature: the shortest exact form."""
    return repr(float(value)).removesuffix(".0")


def without_separator(text: str) -> str:
    """A text without the separator of signatures."""
    return text.replace("|", "/")


def signature_text(value: object) -> str:
    """The value of an option as written in a signature.

    >>> signature_text(True), signature_text(2.0), signature_text(("a", "b"))
    ('yes', '2', 'a,b')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(signature_text, value))
    if isinstance(value, Real) and not isinstance(value, Integral):
        return signature_number(float(value))
    return str(value)


@dataclass(frozen=True, slots=True)
class SignatureOption:
    """How an attribute of a metric is shown in its signature; ``None`` is not shown."""

    attribute: str
    """Its name; that of a property, or ``prompt_used.id``, is possible."""
    unless: Any = None
    """A value that is not shown either, usually the default."""
    differs_from: str = ""
    """Another attribute: the value is shown only if that one has a different value."""
    where: tuple[str, Any] | None = None
    """Another attribute, and the value of it with which this one is shown."""
    words: Mapping[Any, str] = field(default_factory=dict)
    """Texts for some of the values, ``None`` included."""
    last: bool = False
    """Whether it comes after the options of subclasses."""
    write: Callable[[Any], str] = signature_text
    """Writes all other values: numbers in their shortest form, booleans as yes and no, lists with commas."""

    def text(self, metric: object) -> str | None:
        """The value as text; ``None`` if it is not shown."""
        value = attrgetter(self.attribute)(metric)
        if self.where is not None and attrgetter(self.where[0])(metric) != self.where[1]:
            return None
        for known, text in self.words.items():
            if value == known:
                return text
        if value is None or value == self.unless:
            return None
        if self.differs_from and value == getattr(metric, self.differs_from):
            return None
        return self.write(value)
