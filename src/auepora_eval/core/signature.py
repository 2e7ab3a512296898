"""Signatures: the string that names a metric with every option and convention that changes its value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .errors import BadValueError, SignatureMismatchError

__all__ = ["Signature", "function_name"]


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
