"""Redaction of secrets in strings, values and errors, also where they are escaped."""

import json
from typing import Any

import pytest

from auepora_eval.core.types import Document, Response
from auepora_eval.errors import PlanError
from auepora_eval.runtime.secrets import Secrets, is_secret_name, may_name_secret

ROWS: list[tuple[list[str], Any, Any, str]] = [  # secrets, value, want, why
    (["abc"], "xabcx", "x***x", "within a text"),
    (["abc", "abcdef"], "abcdef", "***", "the longer one first"),
    (["abc"], {"abc": ["abc", 1, None, ("abc",)]}, {"***": ["***", 1, None, ("***",)]}, "keys, lists and tuples"),
    ([""], "abc", "abc", "an empty secret is none"),
    (["*"], "a*b", "a*b", "nor is what is hidden"),
    (['a"b'], json.dumps(json.dumps('a"b')), '"\\"***\\""', "JSON within JSON"),
    (["a/b c"], "https://x/?key=a%2Fb%20c", "https://x/?key=***", "as a URL writes it"),
    (["a\udc80bc"], "xa\udc80bcx", "x***x", "no UTF-8"),
]


@pytest.mark.parametrize(("secrets", "value", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_values(secrets: list[str], value: Any, want: Any, why: str) -> None:
    assert Secrets(secrets).value(value) == want, why


@pytest.mark.parametrize(("secrets", "value", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_found_in_json_agrees_with_redaction(secrets: list[str], value: Any, want: Any, why: str) -> None:
    data = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    assert Secrets(secrets).in_bytes(data) or value == want, why


CUTS = [  # secret, message, want, why
    ("abcdefgh", "the key abcdef…", "the key ***…", "the beginning of one, where a text was cut short"),
    ("abcdefgh", "abc… abcdef", "abc… abcdef", "a beginning that is short, or not at a cut"),
    ('a"bcdefg', '{"key": "a\\"bcd…', '{"key": "***…', "the beginning of one within JSON"),
]


@pytest.mark.parametrize(("secret", "message", "want", "why"), CUTS, ids=[row[-1] for row in CUTS])
def test_messages(secret: str, message: str, want: str, why: str) -> None:
    assert Secrets([secret]).message(message) == want, why
    assert Secrets([secret]).text(message) == message, "data is not taken for a message"


@pytest.mark.parametrize(("secrets", "value", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_found_in_agrees_with_redaction(secrets: list[str], value: Any, want: Any, why: str) -> None:
    assert Secrets(secrets).found_in(value) is (value != want), why
    assert Secrets(secrets).found_in(Response("a", metadata={"b": value})) is (value != want), why


def test_excluded_names_are_not_redacted() -> None:
    value = [Document("abc", "abc", {"citations": ["abc"], "other": "abc"})]
    want = [Document("abc", "***", {"citations": ["abc"], "other": "***"})]
    assert Secrets(["abc"]).value(value, but=("doc_id", "citations")) == want


def test_no_secrets() -> None:
    assert not Secrets().in_bytes("anything…".encode())
    value = {"a": ["b"]}
    assert Secrets().value(value) is value


def test_errors() -> None:
    behind = KeyError("the abc")
    error = PlanError("plan.yaml", 1, "system", "the abc is refused")
    error.__cause__, behind.__context__ = behind, error  # in a circle, too
    error.add_note("seen: abc")
    with pytest.raises(PlanError) as raised, Secrets(["abc"]).redact_errors():
        raise error
    assert str(raised.value) == "plan.yaml:1: system: the *** is refused"
    assert raised.value.problem == "system: the *** is refused"
    assert raised.value.__notes__ == ["seen: ***"]
    assert str(behind) == "'the ***'"


NAMES = [  # name, whether it is one, why
    ("api_key", True, "a key of an interface"),
    ("Authorization", True, "a header"),
    ("dbPassword", True, "camel case"),
    ("key", False, "a key may be anything"),
    ("max_tokens", False, "tokens of text"),
    ("first_token", False, "when the first token of an answer came"),
    ("eos_token", False, "a token of a model"),
    ("", False, "no name"),
]


KEPT = [  # the name of a variable or of what is read from one, whether it is likely a secret, why
    *(row for row in NAMES if row[0] != "key"),
    ("MY_KEY", True, "any key"),
    ("PGPASSWORD", True, "written as one word"),
    ("DB_PASS", True, "shortened"),
    ("INDEX", False, "an index"),
    ("MONKEY", False, "what only ends like a key"),
    ("API_KEY_FILE", False, "where to find one"),
]


@pytest.mark.parametrize(("name", "want", "why"), KEPT, ids=[row[-1] for row in KEPT])
def test_names_of_environment_variables(name: str, want: bool, why: str) -> None:
    assert may_name_secret(name) is want, why


@pytest.mark.parametrize(("name", "want", "why"), NAMES, ids=[row[-1] for row in NAMES])
def test_names(name: str, want: bool, why: str) -> None:
    assert is_secret_name(name) is want, why
