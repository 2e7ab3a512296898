"""Replies: paths into JSON, outputs found there, and our own format without an id."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import EvaluationSample, SystemOutputs, UnknownRanking
from auepora_eval.errors import BadValueError, SystemCallError
from auepora_eval.systems.json_mapping import PathNotFoundError, ReplyPaths, excerpt, parse_own_reply, parse_path
from helpers.builders import sample

VALUE = {"data": {"hits": [{"id": 1}, {"id": 2}], "a.b": {"c?": "x"}, "none": None}, "list": [[1, 2], [3]], "": 7}

FOUND: list[tuple[str, str, Any]] = [
    ("a key", "list", [[1, 2], [3]]),
    ("keys", "data.none", None),
    ("an index", "data.hits[1].id", 2),
    ("two indexes", "list[0][1]", 2),
    ("every item", "data.hits[*].id", [1, 2]),
    ("every item of every item", "list[*][0]", [1, 3]),
    ("a key with a dot in quotes", 'data."a.b"', {"c?": "x"}),
    ("single quotes", "data.'a.b'.'c?'", "x"),
    ("the whole", ".", VALUE),
    ("spaces around it", " data.none ", None),
]


@pytest.mark.parametrize(("path", "want"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_path_finds_a_value(path: str, want: Any) -> None:
    assert parse_path(path, what="p").find(VALUE) == want


ABSENT: list[tuple[str, str, str]] = [
    ("no such key", "date", "the reply has no 'date'; it has: data, list, "),
    ("no such key below", "data.answer", "the reply has no 'data.answer'; 'data' has: hits, a.b, none"),
    ("beyond the end", "data.hits[2].id", "'data.hits' has 2 items"),
    ("into null", "data.none.x", "'data.none' is null"),
    ("a key of a list", "list.x", "'list' is a list"),
    ("an index of an object", "data[0]", "'data' has: hits"),
    ("every item of an object", "data[*]", "'data' has: hits"),
    ("into a number", "list[0][0].x", "'list[0][0]' is a number"),
    ("below a quoted key", 'data."a.b".y', "'data.\"a.b\"' has: c?"),
]


@pytest.mark.parametrize(("path", "message"), [row[1:] for row in ABSENT], ids=[row[0] for row in ABSENT])
def test_missing_path_error_lists_the_keys(path: str, message: str) -> None:
    with pytest.raises(PathNotFoundError) as caught:
        parse_path(path, what="p").find(VALUE)
    assert message in str(caught.value)


def test_many_keys_are_not_all_listed() -> None:
    with pytest.raises(PathNotFoundError, match=r"k9 and 15 more$"):
        parse_path("x", what="p").find({f"k{n}": n for n in range(25)})


@pytest.mark.parametrize(
    "path", ["", "?", "a..b", ".a", "a.", "a[", "a[x]", "a[-1]", "a]b", 'a"b"', "a[0]b", "a ? b", 7, None]
)
def test_a_path_that_cannot_be_read_is_refused(path: object) -> None:
    with pytest.raises(BadValueError, match=r"^response\.answer"):
        parse_path(path, what="response.answer")


@given(st.lists(st.one_of(st.text(st.characters(exclude_characters='"'), min_size=1), st.integers(0, 3)), min_size=1))
def test_quoted_keys_and_indexes_round_trip(steps: list[str | int]) -> None:
    value: Any = "here"
    for step in reversed(steps):
        value = {step: value} if isinstance(step, str) else [None] * step + [value]
    text = "".join(f'."{step}"' if isinstance(step, str) else f"[{step}]" for step in steps).removeprefix(".")
    assert parse_path(text, what="p").find(value) == "here"


# ---- outputs at paths -------------------------------------------------------------------------------------------------


def read(paths: dict[str, str], reply: Any) -> Any:
    return ReplyPaths(paths).outputs(json.dumps(reply).encode(), sample())


def test_everything_is_found() -> None:
    reply = {
        "id": 1,
        "out": {"text": "Yes.", "refused": False, "cites": [{"id": 3}, {"id": "b"}]},
        "docs": [{"n": 3, "t": "text", "s": 1, "of": 9, "m": {"lang": "en"}}],
        "meta": {"tokens": 5},
        "time": {"retrieval": 0.5, "generation": 1, "unknown": None},
        "hops": [{"query": "x"}],
    }
    output = read(
        {
            "sample_id": "id",
            "answer": "out.text",
            "refused": "out.refused",
            "citations": "out.cites[*].id",
            "retrieved": "docs",
            "doc_id": "n",
            "text": "t",
            "score": "s",
            "parent_id": "of",
            "metadata": "m",
            "usage": "meta",
            "timings": "time",
            "steps": "hops",
            "error": "error",
        },
        reply,
    )
    (item,) = output.retrieved
    document = item.doc
    assert (document.doc_id, document.text, document.parent_id, document.metadata) == ("3", "text", "9", {"lang": "en"})
    assert (item.score, item.rank) == (1.0, 1)
    assert (output.response.text, output.refused, output.citations) == ("Yes.", False, ["3", "b"])
    assert (output.usage, output.timings, output.steps) == (
        {"tokens": 5},
        {"retrieval": 0.5, "generation": 1.0},
        [{"query": "x"}],
    )
    assert output.error is None


def test_items_may_be_ids_or_have_our_names() -> None:
    output = read({"retrieved": "."}, ["a", 7, {"doc_id": "c", "score": None, "other": 1}])
    assert [item.doc.doc_id for item in output.retrieved] == ["a", "7", "c"]
    assert [item.rank for item in output.retrieved] == [1, 2, 3]
    assert output.response is None


def test_optional_paths() -> None:
    output = read({"answer": "a?", "retrieved": "docs?", "refused": "r?", "citations": "c?"}, {"c": None})
    assert output.response is None
    assert isinstance(output.retrieved, UnknownRanking)
    assert output.refused is None
    assert output.citations is None
    assert read({"answer": "a"}, {"a": None}).response.text == ""
    assert read({"answer": "a", "retrieved": "d"}, {"a": "x", "d": []}).retrieved == []
    assert not isinstance(read({"answer": "a", "retrieved": "d"}, {"a": "x", "d": []}).retrieved, UnknownRanking)


ERRORS: list[tuple[str, Any, str | None]] = [
    ("a text", "no model", "system_error: no model"),
    ("an object", {"code": 7}, 'system_error: {"code": 7}'),
    ("null", None, None),
    ("an empty text", "", None),
    ("false", False, None),
]


@pytest.mark.parametrize(("error", "want"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_error_reply_needs_nothing_else(error: Any, want: str | None) -> None:
    paths = {"answer": "a" if want else "a?", "error": "status.error"}
    assert read(paths, {"status": {"error": error}}).error == want


WRONG: list[tuple[str, dict[str, str], Any, str]] = [
    ("no answer", {"answer": "data.answer"}, {"data": {"reply": "x"}}, "the reply has no 'data.answer'; 'data' has: reply"),
    ("an answer that is an object", {"answer": "a"}, {"a": {"t": 1}}, "'a' of the reply is an object, not a text: {\"t\": 1}"),
    ("an answer that is a number", {"answer": "a"}, {"a": 1}, "'a' of the reply is a number, not a text: 1"),
    ("documents that are no list", {"retrieved": "d"}, {"d": {"x": 1}}, "'d' of the reply is an object, not a list"),
    ("documents that are null", {"retrieved": "d"}, {"d": None}, "'d' of the reply is null, not a list"),
    ("an item without an id", {"retrieved": "d"}, {"d": ["a", {"id": 1}]}, "item 2 of 'retrieved' has no 'doc_id'; it has: id"),
    ("an id that is null", {"retrieved": "d", "doc_id": "id"}, {"d": [{"id": None}]}, "'id' of item 1 of 'retrieved' is null, not an id"),
    ("an id that is true", {"retrieved": "d"}, {"d": [True]}, "item 1 of 'retrieved' is true or false, not an id"),
    ("an empty id", {"retrieved": "d"}, {"d": [""]}, "item 1 of 'retrieved' is an empty id"),
    ("a bare id where a path was given", {"retrieved": "d", "doc_id": "id"}, {"d": ["a"]}, "item 1 of 'retrieved' has no 'id'; it is a text"),
    ("an item that is null", {"retrieved": "d"}, {"d": [None]}, "has no 'doc_id'; it is null"),
    ("a score that is a text", {"retrieved": "d"}, {"d": [{"doc_id": "a", "score": "1"}]}, "'score' of item 1 of 'retrieved' is a text, not a number"),
    ("a score beyond all floats", {"retrieved": "d"}, {"d": [{"doc_id": "a", "score": 10**400}]}, "too large a number"),
    ("a text that is a list", {"retrieved": "d"}, {"d": [{"doc_id": "a", "text": []}]}, "is a list, not a text"),
    ("metadata that are a text", {"retrieved": "d"}, {"d": [{"doc_id": "a", "metadata": "m"}]}, "is a text, not an object"),
    ("refused in words", {"answer": "a", "refused": "r"}, {"a": "", "r": "no"}, "'r' of the reply is a text, not true or false"),
    ("citations in objects", {"answer": "a", "citations": "c"}, {"a": "", "c": [{}]}, "an item of 'c' of the reply is an object, not an id"),
    ("citations that are a text", {"answer": "a", "citations": "c"}, {"a": "", "c": "x"}, "'c' of the reply is a text, not a list"),
    ("timings in words", {"answer": "a", "timings": "t"}, {"a": "", "t": {"x": "1 s"}}, "'x' of 't' of the reply is a text, not a number"),
    ("another sample's", {"answer": "a", "sample_id": "id"}, {"a": "", "id": 2}, "the reply is for sample '2', not for '1'"),
    ("a list where an object was meant", {"answer": "a"}, [1], "the reply has no 'a'; it is a list"),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "reply", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_reply_of_the_wrong_shape(paths: dict[str, str], reply: Any, message: str) -> None:
    with pytest.raises(SystemCallError) as caught:
        read(paths, reply)
    assert caught.value.reason == "bad_output"
    assert message in caught.value.message
    assert not caught.value.retry


REFUSED: list[tuple[str, Any, str]] = [
    ("neither answer nor documents", {"usage": "u"}, "give 'answer' or 'retrieved'"),
    ("an item's path alone", {"answer": "a", "score": "s"}, "response.score leads into the items of 'retrieved'"),
    ("an unknown name", {"anwser": "a"}, "did you mean 'answer'"),
    ("a path that is a list", {"answer": ["a"]}, "response.answer must be a path"),
    ("no names at all", "data.answer", "response must map names to paths"),
]


@pytest.mark.parametrize(("paths", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_paths(paths: Any, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        ReplyPaths(paths)
    assert message in str(caught.value)


def reason_of(reader: Callable[[bytes, EvaluationSample], SystemOutputs], body: bytes) -> str | None:
    try:
        reader(body, sample())
    except SystemCallError as error:
        return error.reason
    return None


PATHS = ReplyPaths({"answer": "a?", "retrieved": "d?", "timings": "t?", "steps": "s?", "error": "e", "citations": "c?"})
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "d", "t", "s", "e", "c", "doc_id"]), inner),
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from("adtsec"), JSON))
def test_any_reply_is_an_output_or_a_failure(reply: dict[str, Any]) -> None:
    for body in (json.dumps(reply), json.dumps({"retrieved": reply.get("d"), "response": reply.get("a")})):
        for reader in (PATHS.outputs, parse_own_reply):
            assert reason_of(reader, body.encode()) in (None, "bad_output")


@given(st.binary())
def test_any_bytes_are_an_output_or_a_failure(body: bytes) -> None:
    for reader in (PATHS.outputs, parse_own_reply):
        assert reason_of(reader, body) in (None, "bad_output")


# ---- our own format -----------------------------------------------------------------------------------------------------


def test_our_own_format_with_and_without_an_id() -> None:
    for body in (
        b'{"sample_id": "1", "retrieved": ["a"]}',
        b' {"retrieved": ["a"]}\n',
        b'\xef\xbb\xbf{"retrieved": ["a"]}',
    ):
        assert [item.doc.doc_id for item in parse_own_reply(body, sample()).retrieved] == ["a"]


def test_error_in_the_reply_is_kept() -> None:
    output = parse_own_reply(b'{"error": "no_model: gone"}', sample())
    assert output.error == "no_model: gone"
    assert isinstance(output.retrieved, UnknownRanking)


def test_required_id_echo() -> None:
    with pytest.raises(SystemCallError, match="bad_output: field 'sample_id' is missing"):
        parse_own_reply(b'{"response": "x"}', sample(), echoes_id=True)


def test_an_excerpt_is_one_line_of_limited_length() -> None:
    assert excerpt(b"a\n  b\xff") == "a b\N{REPLACEMENT CHARACTER}"
    assert excerpt("ä" * 1000) == "ä" * 300 + "…"
    assert excerpt(b"a" + b" " * 5000 + b"b") == "a…"
