"""Declared option types: bounds in ``Annotated``, choices in ``Literal``, and one check of values against them.

>>> problem_of(Annotated[int, Ge(1)], 0)
'must be an integer >= 1, not 0'
>>> problem_of(Literal["mean", "min"], "men")
"must be one of mean, min; not 'men'; did you mean 'mean'?"

A dataclass calls ``check_options(self)`` in ``__post_init__``; a function is decorated with ``check_arguments``. Before
the check a field with ``metadata={"convert": function}`` is converted, unless it has its default.
Metrics are checked by their base class. A boolean is not a number, and a number is finite.
"""

import dataclasses
import functools
import inspect
import operator
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, ParamSpec, TypeVar, get_args, get_origin

from .errors import BadTypeError, BadValueError, did_you_mean

__all__ = [
    "Ge",
    "Gt",
    "Le",
    "Lt",
    "NonEmpty",
    "NonNegativeFloat",
    "NonNegativeInt",
    "PositiveFloat",
    "PositiveInt",
    "check_arguments",
    "check_options",
    "describe_type",
    "first_problem",
    "option_rules",
    "option_types",
    "problem_of",
]

P = ParamSpec("P")
R = TypeVar("R")

# --- constraints, as they are written in ``Annotated`` ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Bound:
    """A limit of a number; one that no useful value reaches need not be ``shown`` in descriptions."""

    limit: float
    shown: bool = dataclasses.field(default=True, kw_only=True)
    symbol: ClassVar[str]

    def holds(self, value: Any) -> bool:
        """Whether the number is within the limit."""
        return bool(_COMPARISONS[self.symbol](value, self.limit))


class Ge(Bound):
    """The number is at least ``limit``."""

    symbol = ">="


class Gt(Bound):
    """The number is greater than ``limit``."""

    symbol = ">"


class Le(Bound):
    """The number is at most ``limit``."""

    symbol = "<="


class Lt(Bound):
    """The number is less than ``limit``."""

    symbol = "<"


@dataclasses.dataclass(frozen=True)
class NonEmpty:
    """The string contains more than white space; the list or mapping has an item."""

    def holds(self, value: Any) -> bool:
        """Whether the value is not empty."""
        return bool(value.strip() if isinstance(value, str) else value)


Phrases = Annotated[tuple[Annotated[str, NonEmpty()], ...], NonEmpty()]
"""One or more strings that are not empty."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}

PositiveInt = Annotated[int, Ge(1)]
NonNegativeInt = Annotated[int, Ge(0)]
PositiveFloat = Annotated[float, Gt(0)]
NonNegativeFloat = Annotated[float, Ge(0)]

# --- the check of one value -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A compiled type hint."""

    description: str
    """The expected value in words: ``an integer >= 1``."""
    has_type: Callable[[Any], bool]
    is_valid: Callable[[Any], bool] = lambda value: True
    """Whether a value of the right type is allowed."""
    advice: Callable[[Any], str] = lambda value: ""
    """What to do about a wrong value, as a clause."""
    items: Callable[[Any], Iterable[tuple[str, Any, "Rule"]]] = lambda value: ()
    """The items of a list or mapping, for messages: where each is, the item and its rule."""

    def accepts(self, value: object) -> bool:
        """Whether the value has the type and is allowed."""
        return self.has_type(value) and self.is_valid(value)

    def problem(self, value: object, describe: Callable[[object], str]) -> str:
        """Why the value is refused."""
        for place, item, rule in self.items(value):
            if not rule.accepts(item):
                return f"{place} {rule.problem(item, describe)}"
        comma = ";" if "," in self.description else ","
        return f"must be {self.description}{comma} not {describe(value)}{self.advice(value)}"


def show_value(value: object) -> str:
    """A value in a message, shortened to 80 characters."""
    return f"{value!r:.80}"


def problem_of(hint: Any, value: object, *, describe: Callable[[object], str] = show_value) -> str | None:
    """Why a value does not have the declared type: ``must be an integer >= 1, not 0``; ``None`` if it has.

    ``describe`` writes the value.
    """
    rule = _compile(hint)
    return None if rule.accepts(value) else rule.problem(value, describe)


def describe_type(hint: Any) -> str:
    """A declared type in words, for reference pages: ``integer >= 1 or none``; empty if it is not checked."""
    rule = _compile(hint)
    plain = rule.description.removeprefix("an ").removeprefix("a ")
    return f"{plain} or none" if plain and rule.accepts(None) else plain


def is_number(value: object) -> bool:
    """Whether a value is an integer or a float, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return bool(abs(value) <= sys.float_info.max)  # False for NaN, and for integers that are no floats


def _number_advice(value: object) -> str:
    if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdigit():
        return "; leave out the quotes"
    return "; it must be finite" if is_number(value) and not _is_finite(value) else ""


_SCALARS: dict[Any, Rule] = {
    bool: Rule("true or false", lambda value: isinstance(value, bool)),
    int: Rule(
        "an integer",
        lambda value: isinstance(value, int) and not isinstance(value, bool),
        advice=_number_advice,
    ),
    float: Rule("a number", is_number, _is_finite, _number_advice),
    str: Rule("a string", lambda value: isinstance(value, str)),
    type(None): Rule("none", lambda value: value is None),
    Any: Rule("", lambda value: True),
}


def _compile(hint: Any) -> Rule:
    """The rule of a type hint; one that is not checked, such as a protocol, has that of ``Any``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _constrain(_compile(arguments[0]), arguments[1:])
    if origin is Literal:
        return _choice(arguments)
    if origin in (typing.Union, types.UnionType):
        return _either([_compile(argument) for argument in arguments])
    kind = type(None) if hint is None else origin or hint
    if not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False):
        return _SCALARS[Any]
    if kind in _SCALARS:
        return _SCALARS[kind]
    if issubclass(kind, (str, bytes)) or not issubclass(kind, Iterable) or dataclasses.is_dataclass(kind):
        return Rule(_class_description(kind), lambda value: isinstance(value, kind))
    if issubclass(kind, Mapping):
        return _mapping(*(_compile(argument) for argument in arguments or (Any, Any)))
    same = arguments and (kind is not tuple or arguments[-1] is Ellipsis)
    return _list(_compile(arguments[0] if same else Any))


def _class_description(kind: Any) -> str:
    if kind is Callable:
        return "a function"
    return "a path" if issubclass(kind, os.PathLike) else f"a {kind.__name__} object"


def _constrain(base: Rule, metadata: Iterable[Any]) -> Rule:
    constraints = [constraint for constraint in metadata if isinstance(constraint, (Bound, NonEmpty))]
    description = base.description
    if any(isinstance(constraint, NonEmpty) for constraint in constraints):
        description = f"a non-empty {description.removeprefix('a ')}"
    bounds = [constraint for constraint in constraints if isinstance(constraint, Bound)]
    if shown := [f"{bound.symbol} {bound.limit}" for bound in bounds if bound.shown]:
        description += " " + " and ".join(shown)
    for note in metadata:
        if isinstance(note, str):  # how messages name the expected value: ``an id``
            description = note

    def advice(value: Any) -> str:
        hidden = [bound for bound in bounds if not bound.shown and base.has_type(value) and not bound.holds(value)]
        return "".join(f"; it must be {bound.symbol} {bound.limit}" for bound in hidden) or base.advice(value)

    return dataclasses.replace(
        base,
        description=description,
        is_valid=lambda value: base.is_valid(value) and all(constraint.holds(value) for constraint in constraints),
        advice=advice,
    )


def _choice(choices: tuple[Any, ...]) -> Rule:
    def is_valid(value: object) -> bool:
        return any(value == choice and isinstance(value, type(choice)) for choice in choices)

    def advice(value: object) -> str:
        names = [choice for choice in choices if isinstance(choice, str)]
        return did_you_mean(value, names) if isinstance(value, str) else ""

    listing = ", ".join(map(str, choices))
    # Every value has the type of a choice: a wrong one is an invalid value.
    return Rule(f"one of {listing}" if len(choices) > 1 else listing, lambda value: True, is_valid, advice)


def _either(members: list[Rule]) -> Rule:
    """A union; one that includes an unchecked type is unchecked."""
    if _SCALARS[Any] in members:
        return _SCALARS[Any]
    named = [rule for rule in members if rule is not _SCALARS[type(None)]]
    if len(named) == 1:
        return _optional(named[0])
    return Rule(
        " or ".join(rule.description for rule in named),
        lambda value: any(rule.has_type(value) for rule in members),
        lambda value: any(rule.accepts(value) for rule in members),
        named[0].advice,
    )


def _optional(rule: Rule) -> Rule:
    return dataclasses.replace(
        rule,
        has_type=lambda value: value is None or rule.has_type(value),
        is_valid=lambda value: value is None or rule.is_valid(value),
        items=lambda value: () if value is None else rule.items(value),
    )


def _list(item: Rule) -> Rule:
    def is_list(value: object) -> bool:
        return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))

    return Rule(
        f"a list of {_plural(item.description)}" if item.description else "a list",
        lambda value: is_list(value) and all(map(item.has_type, value)),
        lambda value: all(map(item.is_valid, value)),
        items=lambda value: (
            ((f"at position {place}", part, item) for place, part in enumerate(value, start=1))
            if is_list(value)
            else ()
        ),
    )


def _plural(description: str) -> str:
    several = re.sub(r"\b(string|integer|number|object|path|function)\b", r"\1s", description, count=1)
    several = several.removeprefix("an ").removeprefix("a ")
    return f"values, each {description}" if several == description else several


def _mapping(key: Rule, item: Rule) -> Rule:
    def items(value: Any) -> Iterable[tuple[str, Any, Rule]]:
        for name, part in value.items() if isinstance(value, Mapping) else ():
            yield f"has the key {name!r:.80}, which", name, key
            yield f"at {name!r:.80}", part, item

    return Rule(
        "a mapping",
        lambda value: isinstance(value, Mapping) and all(rule.has_type(part) for _, part, rule in items(value)),
        lambda value: all(rule.is_valid(part) for _, part, rule in items(value)),
        items=items,
    )


# --- the options of a class or function -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def option_types(target: Any) -> Mapping[str, Any]:
    """The declared types of a class's or function's options by name.

    Those of a dataclass are its fields. A hint that cannot be resolved, as one imported under ``TYPE_CHECKING``, is
    ``Any``.
    """
    if isinstance(target, type) and dataclasses.is_dataclass(target):
        names = [field.name for field in dataclasses.fields(target) if field.init]
        hints: dict[str, Any] = {}
        for base in reversed(target.__mro__):
            own = inspect.get_annotations(base)
            hints |= {name: _resolve(own[name], vars(sys.modules[base.__module__])) for name in names if name in own}
        return types.MappingProxyType({name: hints[name] for name in names})
    function = inspect.unwrap(inspect.getattr_static(target, "__init__") if isinstance(target, type) else target)
    scope = getattr(function, "__globals__", {})
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation is not parameter.empty
    ]
    # ``k: int = None`` is ``int | None``.
    return types.MappingProxyType(
        {
            parameter.name: _resolve(parameter.annotation, scope, optional=parameter.default is None)
            for parameter in parameters
        }
    )


def _resolve(hint: Any, scope: Mapping[str, Any], *, optional: bool = False) -> Any:
    try:
        if isinstance(hint, str):
            holder = types.SimpleNamespace(__annotations__={"hint": hint})
            hint = typing.get_type_hints(holder, dict(scope), include_extras=True)["hint"]
        return hint | None if optional else hint
    except Exception:  # an annotation may be anything
        return Any


@functools.lru_cache(maxsize=1024)
def option_rules(target: Any) -> Mapping[str, Rule]:
    """The rules of a class's or function's options that are checked, by name."""
    compiled = {name: _compile(hint) for name, hint in option_types(target).items()}
    return {name: rule for name, rule in compiled.items() if rule is not _SCALARS[Any]}


def first_problem(target: type, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first value that does not have the type which a class declares for it: its name and problem."""
    rules = option_rules(target)
    for name, value in values.items():
        rule = rules.get(name)
        if rule is not None and not (rule.has_type(value) and rule.is_valid(value)):
            return name, rule.problem(value, show_value)
    return None


@functools.lru_cache(maxsize=1024)
def _converted_fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(field for field in dataclasses.fields(cls) if "convert" in field.metadata)


def check_options(target: Any, values: Mapping[str, Any] | None = None) -> None:
    """Raise unless all values have their declared types; the error names every option that does not.

    ``target`` is the object of a dataclass, or a class or function with the given ``values``.
    """
    if values is None:
        cls: Any = type(target)
        for field in _converted_fields(cls):
            given = getattr(target, field.name)
            if given is not field.default:
                object.__setattr__(target, field.name, field.metadata["convert"](given))
        rules = option_rules(cls)
        wrong = {name: rule for name, rule in rules.items() if not rule.accepts(getattr(target, name))}
        values = {name: getattr(target, name) for name in wrong}
    else:
        rules = option_rules(target)
        wrong = {name: rules[name] for name in values if name in rules and not rules[name].accepts(values[name])}
    if wrong:
        text = "; ".join(f"{name} {rule.problem(values[name], show_value)}" for name, rule in wrong.items())
        has_types = all(rule.has_type(values[name]) for name, rule in wrong.items())
        error = BadValueError(text) if has_types else BadTypeError(text)
        error.option = next(iter(wrong))
        raise error


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator that checks the arguments of a function or constructor against its type hints."""
    plain = inspect.unwrap(function)
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        check_options(plain, {**dict(zip(names, args, strict=False)), **options})
        return function(*args, **options)

    return checked
