"""Request templates: what is filled in, with which type, and what is refused when the template is made."""

import contextlib
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import EvaluationSample
from auepora_eval.errors import BadValueError, SystemCallError
from auepora_eval.systems.json_mapping import Template, default_request, json_text

TURNS = [{"role": "user", "text": "Hi"}]
SAMPLE = EvaluationSample(
    "q1",
    "Why {so}?",
    labels={"lang": "en", "n": 3, "none": None},
    metadata={"a": {"b": [10, 20]}, "a.b": "dotted", "flag": True},
    history=TURNS,
)

FILLED: list[tuple[str, Any, Any]] = [
    ("a text without placeholders", "plain", "plain"),
    ("the query, whose braces stay", "{query}", "Why {so}?"),
    ("a query within a text", "Q: {query}!", "Q: Why {so}?!"),
    ("a number keeps its type", "{top_k}", 5),
    ("a number within a text", "top {top_k}", "top 5"),
    ("two placeholders", "{sample_id}/{top_k}", "q1/5"),
    ("two placeholders side by side", "{top_k}{top_k}", "55"),
    ("a list keeps its type", "{history}", TURNS),
    ("a list within a text is JSON", "h={history}", 'h=[{"role": "user", "text": "Hi"}]'),
    ("a turn of the history", "{history[0].text}", "Hi"),
    ("a label", "{labels.lang}", "en"),
    ("a label that is a number", "{labels.n}", 3),
    ("all labels", "{labels}", SAMPLE.labels),
    ("deep metadata", "{metadata.a.b[1]}", 20),
    ("a key with a dot", '{metadata."a.b"}', "dotted"),
    ("truth within a text is JSON's", "{metadata.flag}.", "true."),
    ("an absent label that may be absent", "{labels.x?}", None),
    ("... is nothing within a text", "[{labels.x?}]", "[]"),
    ("a label that is null", "{labels.none}", None),
    ("braces", "{{query}} {{{query}}}", "{query} {Why {so}?}"),
    ("documents, where none are given", "{documents}", None),
    ("an empty text", "", ""),
    ("objects and lists", {"a": ["{top_k}", {"b": "{query}"}], "c": 1.5}, {"a": [5, {"b": "Why {so}?"}], "c": 1.5}),
    ("keys are left alone", {"{query}": 1}, {"{query}": 1}),
    ("what is no text", [None, True, 7], [None, True, 7]),
]


@pytest.mark.parametrize(("template", "want"), [row[1:] for row in FILLED], ids=[row[0] for row in FILLED])
def test_fill(template: Any, want: Any) -> None:
    got = Template(template).fill(SAMPLE, 5)
    assert got == want
    assert type(got) is type(want)


BAD: list[tuple[str, Any, str]] = [
    ("a misspelt name", {"q": "{qery}"}, "request.q: there is no placeholder '{qery}'; did you mean 'query'?"),
    ("gold", ["{relevant_docs}"], "request[0]: there is no placeholder '{relevant_docs}'; known are {query}, {sample_id}"),
    ("the right answer", "{reference_answer}", "there is no placeholder '{reference_answer}'"),
    ("nothing between the braces", "{}", "there is no placeholder '{}'"),
    ("a position", "{0}", "there is no placeholder '{0}'"),
    ("a lone brace", "a { b", "a single '{' in 'a { b'; write '{{'"),
    ("a lone closing brace", "a } b", "a single '}'"),
    ("into what holds nothing", "{query.x}", "leads into 'query', which holds nothing"),
    ("a broken path", "{labels.}", "cannot be read"),
    ("a placeholder without quotes in YAML", {"q": {"query": None}}, 'request.q: write the placeholder in quotes: "{query}"'),
    ("a label without quotes in YAML", {"q": {"labels.lang": None}}, 'write the placeholder in quotes: "{labels.lang}"'),
    ("a date of YAML", {"d": date(2020, 1, 1)}, "request.d holds datetime.date(2020, 1, 1), which JSON cannot carry"),
    ("no number", {"d": float("nan")}, "which JSON cannot carry"),
    ("a key that is a number", {1: "x"}, "keys must be texts"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_templates(template: Any, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        Template(template)
    assert message in str(caught.value)


def test_sample_without_a_requested_field_fails() -> None:
    with pytest.raises(SystemCallError) as caught:
        Template({"l": "{labels.land}"}).fill(SAMPLE, 5)
    assert str(caught.value) == (
        "bad_request: sample 'q1' has no 'labels.land'; 'labels' has: lang, n, none, "
        "and the request asks for it; '{labels.land?}' may be absent"
    )
    assert not caught.value.retry


@given(st.text(st.characters()), st.integers(1, 99))
def test_any_query_fills_any_place_and_stays_valid_json(query: str, top_k: int) -> None:
    sample = EvaluationSample("q", query, history=[{"text": query}])
    filled = Template({"a": "{query}", "b": "x{query}{{y}}{history}", "c": "{top_k}"}).fill(sample, top_k)
    sent = json.loads(json_text(filled).encode("ascii"))
    assert sent["a"] == query
    assert sent["b"].startswith(f"x{query}{{y}}[")
    assert sent["c"] == top_k
    assert json.loads(json_text(default_request(sample, top_k)))["query"] == query


@given(st.text())
def test_any_string_is_a_template_or_an_error(text: str) -> None:
    with contextlib.suppress(BadValueError):
        assert isinstance(Template(text).fill(SAMPLE, 5), str | int | list | dict)


@given(st.text())
def test_doubled_braces_give_any_text_back(text: str) -> None:
    assert Template(text.replace("{", "{{").replace("}", "}}")).fill(SAMPLE, 5) == text


UNWRITABLE: list[tuple[str, Any]] = [("an object", object()), ("no number", float("nan")), ("a set", {1})]


@pytest.mark.parametrize("value", [row[1] for row in UNWRITABLE], ids=[row[0] for row in UNWRITABLE])
def test_metadata_that_json_cannot_carry_is_a_failure_of_the_sample(value: Any) -> None:
    filled = Template("{metadata.x}").fill(EvaluationSample("q", "why?", metadata={"x": value}), 1)
    with pytest.raises(SystemCallError, match="bad_request: the question cannot be written as JSON"):
        json_text(filled)
