"""Structured answers: labels, fields and JSON schemas, by hand and against the jsonschema package."""

import copy
import datetime
import json
import math
import pickle
import socket
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate, metric
from auepora_eval.core.registry import spec_of
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.structured import FieldAccuracy, LabelAccuracy, StructuredValidity, same_value
from auepora_eval.text.tokenizers import casefold_text
from helpers.builders import output, sample
from helpers.requirements import need


def expecting(structured: Any, **fields: Any) -> EvaluationSample:
    row = sample(answer="", **fields)
    assert row.reference_answer is not None
    row.reference_answer.structured = structured
    return row


def answered(text: str = "", structured: Any = None, **fields: Any) -> SystemOutputs:
    return SystemOutputs([], Response(text, structured), **fields)


def outcome(one: Any, row: EvaluationSample, out: SystemOutputs | None) -> Any:
    """The score, or why there is none."""
    result = one.compute([row], [out])
    ((score,), (text,)) = list(result.scores or ()), list(result.outcomes or ())
    return score if text == "scored" else text


SAME: list[tuple[Any, Any, bool, str]] = [
    ("Yes", "yes", True, "case"),
    (" a  b\n", "a b", True, "white space"),
    ("a\u00a0b", "a b", True, "a no-break space"),
    ("caf\u00e9", "cafe\u0301", True, "composed and decomposed"),
    ("STRASSE", "straße", True, "case folding"),
    ("ﬁ", "fi", True, "a ligature folds"),
    ("\u0345\u0391", "\u03b9\u03b1", True, "the iota below folds to a letter"),
    ("ａ", "a", False, "a wide letter is another one"),
    ("cafe", "café", False, "an accent is part of its letter"),
    ("ab", "a b", False, "a blank is not nothing"),
    ("", "  ", True, "nothing but white space is empty"),
    (1, 1.0, True, "whole and floating"),
    (True, 1, False, "true is not 1"),
    (0, False, False, "0 is not false"),
    (True, True, True, "true"),
    (True, np.True_, True, "numpy's true"),
    (3, np.int64(3), True, "numpy's 3"),
    ("1", 1, False, "a text is not a number"),
    (None, None, True, "null"),
    (None, 0, False, "null is not 0"),
    (None, "", False, "nor an empty text"),
    (math.nan, math.nan, False, "not a number equals nothing"),
    (10**400, 10**400, True, "a number no float can hold"),
    ([1, "A"], [1.0, "a"], True, "lists, value by value"),
    ([1, 2], [2, 1], False, "order counts in lists"),
    ([1], [1, 1], False, "length counts"),
    ((1, 2), [1, 2], True, "a tuple is a list"),
    ({"a": 1, "b": "X"}, {"b": "x", "a": 1}, True, "objects, in any order"),
    ({"a": 1}, {"a": 1, "b": 2}, False, "a further key"),
    ({"a": 1}, {"A": 1}, False, "keys are equal to the letter"),
    ({"a": [True]}, {"a": [1]}, False, "type care inside"),
    ([], {}, False, "a list is not an object"),
    ({}, {}, True, "empty objects"),
]


@pytest.mark.parametrize(("one", "other", "want"), [row[:3] for row in SAME], ids=[row[3] for row in SAME])
def test_same_value(one: Any, other: Any, want: bool) -> None:
    assert same_value(one, other) is want
    assert same_value(other, one) is want


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_every_value_is_the_same_as_itself_and_its_copy(value: Any) -> None:
    assert same_value(value, copy.deepcopy(value))
    assert same_value(value, json.loads(json.dumps(value)))


@given(st.text(max_size=20))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert casefold_text(casefold_text(text)) == casefold_text(text)


LABELS: list[tuple[Any, Any, Any, Any, str]] = [  # reference, labels, output, want, why
    ({"label": "Yes"}, {}, answered("", {"label": " yes "}), 1.0, "structured against structured"),
    ({"label": "yes"}, {}, answered("yes", {"label": "no"}), 0.0, "the structured answer comes first"),
    ({"label": "yes"}, {"label": "no"}, answered("", {"label": "yes"}), 1.0, "the reference comes first"),
    (None, {"label": "yes"}, answered("Yes\n"), 1.0, "labels against the text"),
    ({"other": 1}, {"label": "yes"}, answered("yes"), 1.0, "labels where the reference lacks the field"),
    ({"label": None}, {"label": "yes"}, answered("yes"), 1.0, "null is no label"),
    (None, {"label": "yes"}, answered("yes, certainly"), 0.0, "the whole text must be the label"),
    (None, {"label": "yes"}, answered(""), 0.0, "an empty answer"),
    (None, {"label": ""}, answered("  "), 1.0, "an empty label is a label"),
    (None, {"label": "yes"}, answered("yes", {"other": "yes"}), 0.0, "an object without the field"),
    (None, {"label": "yes"}, answered("yes", {}), 0.0, "an empty object is structured"),
    (None, {"label": "yes"}, answered("yes", {"label": None}), 0.0, "null given"),
    (None, {"label": "yes"}, answered("yes", ["yes"]), 0.0, "a list has no fields"),
    (None, {"label": 1}, answered("", {"label": 1.0}), 1.0, "numbers by value"),
    (None, {"label": 1}, answered("", {"label": True}), 0.0, "true is not 1"),
    (None, {"label": 1}, answered("", {"label": "1"}), 0.0, "a text is not a number"),
    (None, {"label": 1}, answered(" 1 "), 1.0, "a text that reads as the number"),
    (None, {"label": True}, answered("True"), 1.0, "or as true, whatever the case"),
    (None, {"label": True}, answered("1"), 0.0, "but 1 is not true"),
    (None, {"label": ["A"]}, answered('["A"]'), 1.0, "or as a list"),
    (None, {"label": 1}, answered("one"), 0.0, "no JSON"),
    (None, {"label": 1}, answered("[" * 100_000), 0.0, "no JSON, deeply"),
    (None, {"label": 1}, answered("9" * 10_000), 0.0, "more digits than Python reads"),
    (None, {}, answered("yes"), "skipped:no_label", "no label"),
    (None, {"label": None}, answered("yes"), "skipped:no_label", "a null label"),
    (["yes"], {}, answered("yes"), "skipped:no_label", "a reference that is no object"),
    (None, {}, answered("yes", error="timeout"), "skipped:no_label", "the question does not apply to a failure either"),
    (None, {"label": "a"}, answered("a", error="timeout"), "system_failed:timeout", "a failure"),
    (None, {"label": "a"}, SystemOutputs([]), "skipped:no_response", "no answer was asked for"),
    (None, {"label": "a"}, None, "system_failed:missing_output", "no output"),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "labels", "out", "want"), [r[:4] for r in LABELS], ids=[r[4] for r in LABELS])
def test_labels_by_hand(reference: Any, labels: Any, out: Any, want: Any) -> None:
    row = expecting(reference)
    row.labels = labels
    assert outcome(LabelAccuracy(), row, out) == want


def test_label_field_is_an_option() -> None:
    one = metric("label_accuracy", field="verdict")
    assert outcome(one, sample(labels={"verdict": "a", "label": "b"}), answered("", {"verdict": "A"})) == 1.0
    assert outcome(one, sample(labels={"label": "b"}), answered("b")) == "skipped:no_label"
    assert LabelAccuracy.metadata.binary


FIELDS: list[tuple[Any, Any, Any, Any, str]] = [  # expected, output, fields, want, why
    ({"a": 1, "b": "X"}, answered("", {"a": 1.0, "b": "x"}), None, 1.0, "both equal"),
    ({"a": 1, "b": 2}, answered("", {"a": 1, "b": 3}), None, 1 / 2, "one of two"),
    ({"a": 1, "b": 2, "c": 3}, answered("", {"a": 1}), None, 1 / 3, "a missing field is wrong"),
    ({"a": 1}, answered("", {"a": 1, "z": 2}), None, 1.0, "a further field does no harm"),
    ({"a": 1}, answered('{"a": 1}'), None, 1.0, "the text, read as JSON"),
    ({"a": 1}, answered('{"a": 1}', {"a": 2}), None, 0.0, "the structured answer comes first"),
    ({"a": 1}, answered('{"a": 0, "a": 1}'), None, 1.0, "the last of two keys counts"),
    ({"a": 1}, answered('It is {"a": 1}'), None, 0.0, "text around the object"),
    ({"a": 1}, answered("[1]"), None, 0.0, "no object"),
    ({"a": 1}, answered(""), None, 0.0, "nothing"),
    ({"a": 1}, answered('{"a": 1}', []), None, 0.0, "structured, but no object"),
    ({"a": 1}, answered('{"a": 1}', {}), None, 0.0, "an empty object"),
    ({"a": None}, answered("", {"a": None}), None, 1.0, "null, given as null"),
    ({"a": None}, answered("", {}), None, 0.0, "null, not given"),
    ({"a": [{"b": "X"}]}, answered("", {"a": [{"b": " x"}]}), None, 1.0, "nested"),
    ({"a": {"b": 1}}, answered("", {"a": {"b": 1, "c": 2}}), None, 0.0, "a further key inside a field"),
    ({"a": 1, "slots": [["x"]]}, answered("", {"a": 1}), None, 1.0, "slots are no field"),
    ({"a": 1, "b": 2}, answered("", {"a": 1}), ["a"], 1.0, "only some of them"),
    ({"a": 1, "b": 2}, answered("", {"a": 1}), ["a", "z"], 1.0, "one that is not expected here"),
    ({"b": 2}, answered("", {"b": 2}), ["a"], "skipped:no_fields", "none of those asked for"),
    ({"slots": [["x"]]}, answered("x"), None, "skipped:no_fields", "slots alone"),
    ({}, answered("x"), None, "skipped:no_fields", "an empty reference"),
    (None, answered("x"), None, "skipped:no_fields", "a reference that is not structured"),
    ([1], answered("x"), None, "skipped:no_fields", "a reference that is no object"),
    ({"a": 1}, answered("", {"a": 1}, error="boom"), None, "system_failed:boom", "a failure"),
    ({}, answered("", error="boom"), None, "skipped:no_fields", "the question does not apply to a failure either"),
    ({"a": 1}, SystemOutputs([]), None, "skipped:no_response", "no answer was asked for"),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "out", "fields", "want"), [r[:4] for r in FIELDS], ids=[r[4] for r in FIELDS])
def test_fields_by_hand(expected: Any, out: Any, fields: Any, want: Any) -> None:
    assert outcome(FieldAccuracy(fields), expecting(expected), out) == want


def test_no_reference_is_no_field() -> None:
    assert outcome(FieldAccuracy(), sample(), answered("x")) == "skipped:no_reference"


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
TREE = {"properties": {"next": {"$ref": "#"}}}
DEEP: Any = {}
DEEP_SCHEMA: Any = {}
for _ in range(500):
    DEEP, DEEP_SCHEMA = {"next": DEEP}, {"not": DEEP_SCHEMA}
LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP

ANSWERS: list[tuple[Any, Any, Any, str]] = [  # schema, output, want, why
    (SCHEMA, answered("", {"n": 1}), 1.0, "valid"),
    (SCHEMA, answered("", {"n": 0}), 0.0, "too small"),
    (SCHEMA, answered("", {}), 0.0, "a field is missing"),
    (SCHEMA, answered('{"n": 1}'), 1.0, "the text, read as JSON"),
    (SCHEMA, answered('{"n": 1}', {"n": 0}), 0.0, "the structured answer comes first"),
    (SCHEMA, answered(' {"n": 0, "n": 1}\n'), 1.0, "the last of two keys counts"),
    (SCHEMA, answered('```json\n{"n": 1}\n```'), 0.0, "text around the object"),
    (SCHEMA, answered(""), 0.0, "no JSON"),
    ({}, answered("[1]"), 0.0, "no object, though the schema allows it"),
    ({}, answered("null"), 0.0, "null is no object"),
    ({}, answered("{}"), 1.0, "the empty schema takes any object"),
    ({}, answered('{"x": NaN}'), 0.0, "NaN is no JSON"),
    ({}, answered('{"x": -Infinity}'), 0.0, "Infinity is no JSON"),
    ({}, answered("", {"x": math.nan}), 0.0, "nor is it in a structured answer"),
    ({}, answered('\ufeff{"x": 1}'), 0.0, "a byte order mark is no JSON"),
    ({}, answered('{"x": "\\ud800"}'), 1.0, "half a character is JSON"),
    ({}, answered('{"x":' * 100_000), 0.0, "deeper than Python reads"),
    ({}, answered('{"x": ' + "9" * 10_000 + "}"), 0.0, "more digits than Python reads"),
    ({}, answered("{}", [1]), 0.0, "structured, but no object"),
    ({}, answered("", LOOP), 0.0, "an object inside itself is no JSON"),
    (SCHEMA, answered("", {"n": True}), 0.0, "true is no integer"),
    (SCHEMA, answered("", {"n": 1.0}), 1.0, "1.0 is one"),
    (SCHEMA, answered("", {"n": np.int64(1)}), 1.0, "a number of another library"),
    ({"properties": {"n": {"type": "boolean"}}}, answered("", {"n": np.True_}), 1.0, "numpy's true"),
    ({"properties": {"n": {"type": "array"}}}, answered("", {"n": (1, 2)}), 1.0, "a tuple is a list"),
    (SCHEMA, answered("", types.MappingProxyType({"n": 1})), 1.0, "any mapping is an object"),
    (SCHEMA, answered("", {"n": datetime.date(2024, 1, 1)}), "measure_failed:not_json", "a date is no JSON"),
    (TREE, answered("", {"next": {"next": {}}}), 1.0, "a schema that refers to itself"),
    (TREE, answered("", {"next": {"next": 5}}), 1.0, "properties say nothing of a number"),
    (TREE, answered("", DEEP), "measure_failed:not_validated", "deeper than the validator follows"),
    ({"properties": {"n": {"multipleOf": 0.5}}}, answered('{"n": 1e999}'), "measure_failed:not_validated", "an overflow"),
    ({"format": "date", "properties": {"d": {"format": "date"}}}, answered("", {"d": "x"}), 1.0, "format is not checked"),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": {"items": [{"type": "string"}]}}},
     answered("", {"x": [1]}), 0.0, "draft 7: a list of items goes by position"),
    ({"properties": {"x": {"prefixItems": [{"type": "string"}]}}}, answered("", {"x": [1]}), 0.0, "2020-12 by default"),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"x": {"prefixItems": [{"type": "string"}]}}},
     answered("", {"x": [1]}), 1.0, "draft 7 does not know that word"),
    ({"$id": "https://me.example/s", "$ref": "https://me.example/b", "$defs": {"b": {"$id": "b", "required": ["n"]}}},
     answered("", {}), 0.0, "an address that the schema itself holds"),
    ({"properties": {"$ref": {"type": "string"}}}, answered("", {"$ref": 5}), 0.0, "a field that is called $ref"),
    ({"properties": {"a": {"const": {"$ref": "https://x.example"}}}}, answered("", {}), 1.0, "a value that looks like one"),
    (SCHEMA, answered('{"n": 1}', error="boom"), "system_failed:boom", "a failure"),
    (SCHEMA, SystemOutputs([]), "skipped:no_response", "no answer was asked for"),
    (None, answered('{"n": 1}'), "skipped:no_schema", "no schema"),
    (None, answered("", error="boom"), "skipped:no_schema", "the question does not apply to a failure either"),
]  # fmt: skip


@pytest.mark.parametrize("place", ["option", "sample"])
@pytest.mark.parametrize(("schema", "out", "want"), [r[:3] for r in ANSWERS], ids=[r[3] for r in ANSWERS])
def test_validity_by_hand(schema: Any, out: Any, want: Any, place: str) -> None:
    if place == "option":
        assert outcome(StructuredValidity(schema), sample(), out) == want
    else:
        assert outcome(StructuredValidity(), sample(metadata={"output_schema": schema}), out) == want


def test_option_comes_before_the_schema_of_the_sample() -> None:
    row = sample(metadata={"output_schema": {"required": ["z"]}})
    assert outcome(StructuredValidity(SCHEMA), row, answered("", {"n": 1})) == 1.0
    assert StructuredValidity.metadata.binary


BROKEN: list[tuple[Any, str, str]] = [  # schema, message, why
    ("{}", "a JSON schema is a mapping", "a text"),
    (True, "a JSON schema is a mapping", "true"),
    ([{}], "a JSON schema is a mapping", "a list"),
    ({"type": "objekt"}, r"'objekt' is not valid .*\(at \$\.type\)", "a type that does not exist"),
    ({"required": "n"}, "'n' is not of type 'array'", "a word used wrongly"),
    ({"properties": {"n": {"pattern": "("}}}, r"not a 'regex' \(at \$\.properties\.n\.pattern\)", "a broken pattern"),
    ({"properties": {False: {}}}, "the key False; put quotes around it", "YAML's bare no as a key"),
    ({"const": datetime.date(2024, 1, 1)}, "date is not JSON serializable", "YAML's bare date"),
    ({"minimum": math.nan}, "not JSON compliant", "not a number"),
    (LOOP, "Circular reference", "an object inside itself"),
    (DEEP_SCHEMA, "nested too deeply", "deeper than the validator follows"),
    ({"$ref": "https://x.example/s.json"}, "'https://x.example/s.json' cannot be resolved", "an address"),
    ({"$defs": {"a": {"$ref": "file:///etc/passwd"}}}, "'file:///etc/passwd' cannot be resolved", "a file, in a part not used"),
    ({"properties": {"a": {"$ref": "#/$defs/a"}}}, "'#/\\$defs/a' cannot be resolved", "a place that is not there"),
    ({"$ref": "#"}, "is circular", "a circle"),
    ({"$ref": "#/enum", "enum": [[]]}, "does not lead to a schema", "a place that holds a list"),
    ({"$ref": "#/x", "x": {"type": 5}}, "5 is not valid", "a place that holds a broken schema"),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "$ref": 5}, "reference 5 is not a string", "a number to refer to"),
    ({"$schema": "https://x.example/mine"}, "'https://x.example/mine' is not a supported draft", "an unknown draft"),
    ({"$schema": 7}, "7 is not a supported draft", "a draft by number"),
    ({"$id": "http://[", "$ref": "a"}, "the schema is broken", "an id that is no address"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "message"), [row[:2] for row in BROKEN], ids=[row[2] for row in BROKEN])
def test_broken_schema(schema: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("something was to be fetched")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    with pytest.raises(BadValueError, match=message):
        StructuredValidity(schema)
    row = sample(metadata={"output_schema": schema})
    assert outcome(StructuredValidity(), row, answered("{}")) == "measure_failed:bad_schema"


BAD_OPTIONS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("field_accuracy", {"fields": "name"}, BadTypeError, "fields must be a non-empty list of non-empty strings"),
    ("field_accuracy", {"fields": ["slots"]}, BadValueError, "reserved"),
]


@pytest.mark.parametrize(("name", "options", "kind", "message"), BAD_OPTIONS, ids=[str(r[1]) for r in BAD_OPTIONS])
def test_invalid_options(name: str, options: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        metric(name, **options)


SPECS: list[tuple[Any, str]] = [
    ("label_accuracy", "label_accuracy|field:label|v1"),
    ({"label_accuracy": {"field": "a|b: c"}}, "label_accuracy|field:a%7Cb%3A%20c|v1"),
    ("field_accuracy", "field_accuracy|fields:*|v1"),
    ({"field_accuracy": {"fields": ["b", "a", "b"]}}, "field_accuracy|fields:a,b|v1"),
    ({"field_accuracy": {"fields": ["a,b", "*"]}}, "field_accuracy|fields:%2A,a%2Cb|v1"),
    ("structured_validity", "structured_validity|schema:sample|v1"),
    ({"structured_validity": {"schema": {}}}, "structured_validity|schema:44136fa355b3|v1"),  # sha256 of "{}"
]


@pytest.mark.parametrize(("spec", "signature"), SPECS, ids=[row[1] for row in SPECS])
def test_specs_and_signatures(spec: Any, signature: str) -> None:
    one: Any = metric(spec)
    again: Any = metric(spec_of(one))
    travelled = pickle.loads(pickle.dumps(one))
    for other in (one, again, travelled):
        assert (other, hash(other), str(other.signature)) == (one, hash(one), signature)


def test_equal_schemas_have_equal_signatures() -> None:
    one, other = StructuredValidity({"a": 1, "type": "object"}), StructuredValidity({"type": "object", "a": 1})
    assert (one, str(one.signature)) == (other, str(other.signature))
    assert StructuredValidity({"const": 1}) != StructuredValidity({"const": True})
    assert StructuredValidity() != StructuredValidity({})


def test_later_changes_to_the_schema_are_ignored() -> None:
    mine = copy.deepcopy(SCHEMA)
    one = StructuredValidity(mine)
    mine["required"] = ["z"]
    assert one.schema == SCHEMA
    assert outcome(one, sample(), answered("", {"n": 1})) == 1.0


KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        "maxProperties": st.integers(0, 2),
        "properties": st.dictionaries(
            st.sampled_from("abc"), st.fixed_dictionaries({"type": st.sampled_from(["string", "number", "null"])})
        ),
        "additionalProperties": st.booleans(),
    },
)


@given(KEYWORDS, st.dictionaries(st.sampled_from("abc"), JSON, max_size=3))
def test_agrees_with_jsonschema(schema: dict[str, Any], answer: dict[str, Any]) -> None:
    want = float(need("jsonschema").Draft202012Validator(schema).is_valid(answer))
    for out in (answered("", answer), answered(json.dumps(answer))):
        assert outcome(StructuredValidity(schema), sample(), out) == want
        assert outcome(StructuredValidity(), sample(metadata={"output_schema": schema}), out) == want


def test_means_over_a_few_answers() -> None:
    rows = [expecting({"label": "a", "n": i}, sample_id=str(i), metadata={"output_schema": SCHEMA}) for i in range(4)]
    outs = [
        answered("", {"label": "A", "n": 0}),
        answered('{"label": "b", "n": 1}'),
        answered("", {"label": "a", "n": 3}),
        output(error="timeout"),
    ]
    label, fields, valid = evaluate(rows, outs, ["label_accuracy", "field_accuracy", "structured_validity"])
    assert list(label.scores or ()) == [1.0, 0.0, 1.0, 0.0]  # a text that is an object is not the label
    assert list(fields.scores or ()) == [1.0, 1 / 2, 1 / 2, 0.0]
    assert list(valid.scores or ()) == [0.0, 1.0, 1.0, 0.0]
    assert (label.value, fields.value, valid.value) == (1 / 2, 1 / 2, 1 / 2)
