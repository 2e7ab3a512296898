"""Structured answers: label accuracy, field accuracy, and validity against a JSON schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral, Real
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np

from ..core.conventions import SignatureOption
from ..core.derivation import add_division, add_outcome, add_step, add_table, is_recording, quote_text, yes_no
from ..core.metrics_base import declare
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, Response, SystemOutputs, TargetCategory
from ..errors import BadTypeError, BadValueError
from ..options import NonEmpty
from ..text.tokenizers import casefold_text
from .answer_base import AnnotatedMetric

# --- JSON schemas compiled to validators, cached; nothing is fetched -------------------------------------------------


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
    for name in [schema[keyword] for keyword in ("$ref", "$dynamicRef", "$recursiveRef") if keyword in schema]:
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


# --- structured answers: label accuracy, field accuracy, and validity against a JSON schema --------------------------

SLOTS = "slots"
FieldName = Annotated[str, NonEmpty()]
"""The key of a structured reference for aliases of containment; not a field to compare."""
_BOOLS = (bool, np.bool_)
_NOT_JSON: Any = object()


def same_value(expected: object, given: object) -> bool:
    """Whether two JSON values are equal: strings by ``casefold_text`` and stripped, true is not 1, and 1 is 1.0.

    Objects must have the same keys, lists the same length, and the values inside are compared alike.
    """
    if isinstance(expected, str) and isinstance(given, str):
        return casefold_text(expected).strip() == casefold_text(given).strip()
    if isinstance(expected, _BOOLS) or isinstance(given, _BOOLS):
        return isinstance(expected, _BOOLS) and isinstance(given, _BOOLS) and bool(expected) == bool(given)
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return expected.keys() == given.keys() and all(same_value(expected[key], given[key]) for key in expected)
    if isinstance(expected, (list, tuple)) and isinstance(given, (list, tuple)):
        return len(expected) == len(given) and all(map(same_value, expected, given))
    return bool(expected == given)


def _quote_name(name: str) -> str:
    """A field's name for a signature, with special characters quoted."""
    return quote(name, safe="", errors="surrogatepass")


def _quote_names(names: Iterable[str]) -> str:
    """The names of fields for a signature."""
    return ",".join(sorted(_quote_name(name) for name in names))


def _schema_digest(text: str) -> str:
    """A schema for a signature."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@register("label_accuracy")
@dataclass(frozen=True)
class LabelAccuracy(AnnotatedMetric):
    r"""1 if the answer gives the expected label.

    .. math:: [\,\text{label given} = \text{label expected}\,]

    Expected is `reference_answer.structured[field]`, else `labels[field]`. Given is `response.structured[field]`, or
    the whole answer text where the answer is not structured; an object without the field is wrong. Strings are equal
    ignoring case, white space and Unicode composition; other values are equal as in JSON, where true is not 1 and 1 is
    1.0. A label that is not a string is compared with the answer text parsed as JSON: `3`, `true`. Every answer with an
    expected label is counted.
    """

    field: FieldName = "label"

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        binary=True,
        skip_reasons={
            "no_label": "neither the reference answer nor the sample's labels have the field (null counts as missing)",
            "no_response": "no answer was asked for",
        },
        examples=(
            "label_accuracy",
            {"label_accuracy": {"field": "kind"}},
        ),
        signature={"field": SignatureOption("field", write=_quote_name)},
    )

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without an expected label."""
        return "no_label" if self._expected(sample) is None else None

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the labels are the same."""
        assert output.response is not None  # outputs without a response are skipped before
        expected, structured = self._expected(sample), output.response.structured
        if structured is None:
            given: Any = output.response.text
            same = _text_equals(output.response.text, expected)
        else:
            given = structured.get(self.field) if isinstance(structured, Mapping) else None
            same = same_value(expected, given)
        if is_recording():
            add_step(f"Expected under {quote_text(self.field)}: {_to_json(expected)}")
            add_step(f"Given{', the whole answer' if structured is None else ''}: {_to_json(given)}")
        return Score(add_outcome("They are equal" if same else "They are not equal", float(same)))

    def _expected(self, sample: EvaluationSample) -> Any:
        for holder in (getattr(sample.reference_answer, "structured", None), sample.labels):
            label = holder.get(self.field) if isinstance(holder, Mapping) else None
            if label is not None:
                return label
        return None


@register("field_accuracy")
@dataclass(frozen=True)
class FieldAccuracy(AnnotatedMetric):
    r"""Proportion of the expected fields that the structured answer contains with an equal value.

    .. math:: |\{f \in F : \text{given}_f = \text{expected}_f\}| \,/\, |F|

    F are the keys of `reference_answer.structured`, but for the reserved `slots`; the option `fields` keeps only some
    of them. Given is `response.structured`, else the answer text read as JSON; an answer that is no object scores 0,
    and additional fields are ignored. Strings are equal ignoring case, white space and Unicode composition, other
    values as in JSON (true is not 1, 1 is 1.0), objects and lists if everything inside them is. An expected null must
    be given as null. Every answer with an expected field is counted.
    """

    fields: Annotated[tuple[FieldName, ...], NonEmpty()] | None = None

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        requires=("reference_answer",),
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "no_fields": "the reference answer is not structured, or has none of the fields asked for",
            "no_response": "no answer was asked for",
        },
        examples=(
            "field_accuracy",
            {"field_accuracy": {"fields": ["label", "n"]}},
        ),
        signature={"fields": SignatureOption("fields", words={None: "*"}, write=_quote_names)},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fields is not None:
            if SLOTS in self.fields:
                raise BadValueError(f"'{SLOTS}' is reserved for lists of aliases and is no field to compare")
            object.__setattr__(self, "fields", tuple(dict.fromkeys(self.fields)))

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without expected fields."""
        return None if self._expected(sample) else "no_fields"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The proportion of correct fields."""
        assert output.response is not None  # outputs without a response are skipped before
        expected = self._expected(sample)
        structured = output.response.structured
        given = _parse_json(output.response.text) if structured is None else structured
        if not isinstance(given, Mapping):
            return Score(add_outcome("The answer is no object", 0.0))
        right = [name for name, value in expected.items() if name in given and same_value(value, given[name])]
        add_table(
            "Every expected field",
            ("field", "expected", "given", ""),
            (
                (
                    name,
                    _to_json(value),
                    _to_json(given[name]) if name in given else "not there",
                    yes_no(name in right, "right", "wrong"),
                )
                for name, value in expected.items()
            ),
        )
        return Score(add_division("Right / expected", len(right), len(expected)))

    def _expected(self, sample: EvaluationSample) -> dict[str, Any]:
        structured = getattr(sample.reference_answer, "structured", None)
        if not isinstance(structured, Mapping):
            return {}
        return {
            name: value
            for name, value in structured.items()
            if name != SLOTS and (self.fields is None or name in self.fields)
        }


@register("structured_validity")
@dataclass(frozen=True)
class StructuredValidity(AnnotatedMetric):
    r"""1 if the answer is an object that satisfies a JSON schema.

    .. math:: [\,\text{answer} \models \text{schema}\,]

    The schema is the option `schema`, else the sample's `metadata["output_schema"]`. The answer is
    `response.structured`, else the answer text read strictly as JSON: NaN and Infinity are no JSON, and neither is text
    around the object. Anything but an object scores 0. `$schema` names the draft (2020-12 where it is absent); `format`
    is not checked; nothing is fetched, so a reference must point into the schema. A broken schema of a sample is a
    failed measurement (`bad_schema`), and so is an answer with Python objects unknown to JSON (`not_json`) or one too
    deep or with too large a number for the validator (`not_validated`). Every answer with a schema is counted.
    """

    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    _text: str | None = field(default=None, init=False, repr=False)
    """The schema as canonical JSON, by which metrics are compared: a dict has no hash, and 1 equals true."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        binary=True,
        skip_reasons={
            "no_schema": 'no schema was given as an option or in `metadata["output_schema"]`',
            "no_response": "no answer was asked for",
        },
        reference="JSON Schema 2020-12",
        examples=(
            "structured_validity",
            {"structured_validity": {"schema": {"type": "object", "required": ["n"]}}},
        ),
        signature={"schema": SignatureOption("_text", words={None: "sample"}, write=_schema_digest)},
    )

    def __post_init__(self) -> None:
        if self.schema is not None:
            text = canonical_schema(self.schema)
            problem = compile_schema(text)
            if isinstance(problem, str):
                raise BadValueError(f"the schema is broken: {problem}")
            # A copy: later changes to the caller's schema must not change the metric.
            object.__setattr__(self, "schema", json.loads(text))
            object.__setattr__(self, "_text", text)
        super().__post_init__()

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without a schema."""
        return "no_schema" if self._text is None and _own_schema(sample) is None else None

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer satisfies the schema."""
        assert output.response is not None  # outputs without a response are skipped before
        try:
            schema = canonical_schema(_own_schema(sample)) if self._text is None else self._text
        except BadValueError:
            return Score.fail("bad_schema")
        satisfies = compile_schema(schema)
        if isinstance(satisfies, str):
            return Score.fail("bad_schema")
        try:
            answer = _as_json(output.response)
        except TypeError:
            return Score.fail("not_json")
        try:
            fits = isinstance(answer, dict) and satisfies(answer)
        except (RecursionError, ArithmeticError):
            return Score.fail("not_validated")
        if is_recording():
            add_step(f"The schema: {quote_text(schema)}")
            add_step(f"The answer: {quote_text(_to_json(output.response.structured or output.response.text))}")
        return Score(add_outcome("It is an object that fits" if fits else "It is no object that fits", float(fits)))


def _to_json(value: Any) -> str:
    """A value as JSON, for a step of a derivation."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _parse_json(text: str) -> Any:
    """A string parsed as strict JSON; an object equal to nothing if it is not JSON."""
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _text_equals(text: str, expected: object) -> bool:
    """Whether an answer text is the expected label, or parses to it if the label is not a string."""
    if isinstance(expected, str):
        return same_value(expected, text)
    return any(same_value(expected, _parse_json(form)) for form in (text, casefold_text(text)))


def _as_json(response: Response) -> Any:
    """The answer as plain JSON values. Raises ``TypeError`` for an object unknown to JSON."""
    if response.structured is None:
        return _parse_json(response.text)
    try:
        return json.loads(json.dumps(response.structured, allow_nan=False, default=_json_default))
    except (ValueError, RecursionError):  # not a number, a loop
        return _NOT_JSON


def _json_default(value: object) -> object:
    """Conversion for ``json.dumps``: numbers of other libraries, and mappings other than dict."""
    match value:
        case Mapping():
            return dict(value)
        case np.bool_():
            return bool(value)
        case Integral():
            return int(value)
        case Real():
            return float(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def _own_schema(sample: EvaluationSample) -> Any:
    return sample.metadata.get("output_schema") if isinstance(sample.metadata, Mapping) else None
