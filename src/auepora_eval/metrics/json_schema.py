"""JSON schemas compiled to validators, cached; nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ..core.errors import BadTypeError, BadValueError

__all__ = ["canonical_schema", "compile_schema"]

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def canonical_schema(schema: object) -> str:
    """A schema as canonical JSON, the same for equal schemas."""
    if not isinstance(schema, Mapping):
        raise BadTypeError(f"a JSON schema is a mapping, not {schema!r:.80}")
    try:
        text = json.dumps(dict(schema), allow_nan=False)
        _check_keys(schema)
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise BadValueError("the schema is nested too deeply") from None
    except TypeError as error:
        raise BadTypeError(f"the schema contains a value that JSON lacks: {error}") from None
    except ValueError as error:
        raise BadValueError(f"the schema contains a value that JSON lacks: {error}") from None


def _check_keys(value: object) -> None:
    """Raise for a key that is not a string: json would write YAML's bare ``no`` as "false"."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r}; put quotes around it")
            _check_keys(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_keys(inner)


@lru_cache(maxsize=64)
def compile_schema(text: str) -> Callable[[object], bool] | str:
    """The validator of a schema given as canonical JSON, or an error message."""
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    schema = json.loads(text)
    draft = schema.setdefault("$schema", "https://json-schema.org/draft/2020-12/schema")
    kind = validator_for(schema, default=None) if isinstance(draft, str) else None
    if kind is None:
        return f"its '$schema' {draft!r:.80} is not a supported draft of JSON Schema"
    try:
        kind.check_schema(schema)
        as_part, nothing = specification_with(draft).create_resource, Registry[Any]()
        _check_references(
            as_part(schema), nothing.resolver_with_root(as_part(schema)), as_part, kind.check_schema, set()
        )
        # By default a validator fetches missing references; this empty registry prevents it.
        satisfies: Callable[[object], bool] = kind(schema, registry=nothing).is_valid
        satisfies({})  # circular references fail on any object
    except SchemaError as error:
        return f"{error.message:.200} (at {error.json_path})"
    except Unresolvable as error:
        return f"the reference {error.ref!r} cannot be resolved; nothing is fetched, so put its target in '$defs'"
    except RecursionError:
        return "it is circular, or nested too deeply"
    except ValueError as error:
        return str(error)
    return satisfies


def _check_references(
    part: Any, resolver: Any, as_part: Callable[[Any], Any], check: Callable[[Any], None], visited: set[int]
) -> None:
    """Resolve every reference in a part of a schema, so that unresolvable ones fail before any answer is read."""
    from referencing.exceptions import Unresolvable

    schema = part.contents
    if not isinstance(schema, Mapping) or id(schema) in visited:
        return
    visited.add(id(schema))
    for name in [schema[keyword] for keyword in _REFERENCES if keyword in schema]:
        if not isinstance(name, str):
            raise ValueError(f"the reference {name!r:.80} is not a string")
        try:
            target = resolver.lookup(name)
        except Unresolvable:
            raise Unresolvable(ref=name) from None  # with the whole reference
        if not isinstance(target.contents, (dict, bool)):
            raise ValueError(f"the reference '{name}' does not lead to a schema")
        check(target.contents)  # the target may lie outside any schema keyword
        _check_references(as_part(target.contents), target.resolver, as_part, check, visited)
    for inner in part.subresources():
        _check_references(inner, resolver.in_subresource(inner), as_part, check, visited)
