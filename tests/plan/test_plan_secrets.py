"""Secrets in plans: variables are substituted and never stored, and literal secrets are refused."""

import json
from pathlib import Path

import pytest

from auepora_eval.errors import PlanError
from auepora_eval.plan.model import Plan
from auepora_eval.plan.prepare import plan_problems, read_plan

VARIABLES = {"KEY": "sk-12345", "HOST": "http://inner:80", "PGPASSWORD": "hunter22", "SHORT": "abc", "EMPTY": ""}
FULL = """\
dataset: d
system:
  http:
    url: ${HOST}/ask
    headers: {Authorization: "Bearer ${KEY}", X-Literal: "$${KEY}"}
store: postgresql://me:${PGPASSWORD}@host/runs
"""


def read(folder: Path, text: str) -> Plan:
    (folder / "plan.yaml").write_text(text)
    return read_plan(folder / "plan.yaml", environment=VARIABLES)


def test_variables_are_substituted_and_never_stored(tmp_path: Path) -> None:
    plan = read(tmp_path, FULL)
    assert plan.system is not None
    assert plan.system.options["url"] == "http://inner:80/ask"
    assert plan.system.options["headers"] == {"Authorization": "Bearer sk-12345", "X-Literal": "${KEY}"}
    assert plan.store == "postgresql://me:hunter22@host/runs"
    assert plan.secrets == {"sk-12345", "hunter22"}
    for shown in (json.dumps(plan.resolved), repr(plan), repr(plan.system)):
        assert not [secret for secret in plan.secrets if secret in shown]
    assert plan.resolved["system"]["http"]["headers"]["Authorization"] == "Bearer ${KEY}"
    assert plan.resolved["store"] == "postgresql://me:${PGPASSWORD}@host/runs"


def test_variables_in_args_and_env(tmp_path: Path) -> None:
    made = read(
        tmp_path, "dataset: d\nsystem: {python: 'a:b', args: {llm: {api_key: '${KEY}', tries: [1, '${SHORT}']}}}"
    )
    assert made.system is not None
    assert made.system.options["args"] == {"llm": {"api_key": "sk-12345", "tries": [1, "abc"]}}
    assert made.secrets == {"sk-12345"}, "what is too short to be looked for is no secret"
    made = read(tmp_path, "dataset: d\nsystem: {command: {run: x, env: {API_KEY: '${KEY}'}}}")
    assert made.system is not None
    assert made.system.options["env"] == {"API_KEY": "sk-12345"}


HTTP = "system: {http: {url: 'http://x', headers: {%s}}}"
ARGS = "system: {python: 'a:b', args: {%s}}"
VALUE = "wiki-2024"
WHERE = [  # what stands in a plan, the variable's value, what is secret, why
    (ARGS % "index: '${INDEX}'", VALUE, set(), "an argument by a harmless name"),
    (ARGS % "index: '${X}', depth: '${X}'", VALUE, set(), "twice"),
    (ARGS % "api_key: '${X}'", VALUE, {VALUE}, "an argument by the name of a secret"),
    (ARGS % "llm: {tokens: ['a'], key: ['${X}']}", VALUE, {VALUE}, "a key, in a list"),
    (ARGS % "credentials: {name: '${X}'}", VALUE, {VALUE}, "within what is secret"),
    (ARGS % "eos_token: '${X}'", VALUE, set(), "a token of a model"),
    (ARGS % "llm: '${MY_KEY}'", VALUE, {VALUE}, "a variable by the name of a key"),
    (ARGS % "llm: '${PGPASSWORD}'", VALUE, {VALUE}, "a variable whose name ends like a secret's"),
    (ARGS % "llm: '${EOS_TOKEN}'", VALUE, set(), "a variable that is a token of a model"),
    (ARGS % "index: '${X}', api_key: '${X}'", VALUE, {VALUE}, "secret in one of two places"),
    (ARGS % "dsn: 'host=h password=${X} dbname=d'", VALUE, {VALUE}, "after its name within a text"),
    (ARGS % "llm: '${X}'", "sk-live-0123456789abcdef", {"sk-live-0123456789abcdef"}, "a value of a known kind"),
    (ARGS % "model: '${X}'", "sentence-transformers/all-MiniLM-L6-v2", set(), "a long name"),
    (HTTP % "X-Tenant: '${X}'", VALUE, {VALUE}, "a header"),
    (HTTP % "Accept-Language: '${X}'", "de-CH, de", set(), "a header that is no secret"),
    (ARGS % "headers: {X-Tenant: '${X}'}", VALUE, {VALUE}, "a header among the arguments"),
    ("system: {http: 'http://${X}/ask'}", "inner:8080", set(), "a host"),
    ("system: {http: 'http://me:${X}@h/ask'}", "p@ss/w?rd", {"p@ss/w?rd"}, "a password in an address"),
    ("system: {http: 'http://h/ask?index=i&api_key=${X}'}", VALUE, {VALUE}, "a parameter by the name of a secret"),
    ("system: {http: 'http://h/ask?index=${X}'}", VALUE, set(), "another parameter"),
    ("system: {http: '${X}'}", "http://me:hunter2%21@h/a?token=abcd&n=5", {"hunter2%21", "hunter2!", "abcd"}, "an address that holds them"),
    ("system: {http: {url: 'http://h', request: {q: '{query}', auth: {token: '${X}'}}}}", "a{b}c", {"a{b}c"}, "what is sent"),
    ("system: {command: {run: x, env: {INDEX: '${X}'}}}", VALUE, set(), "the surroundings"),
    ("system: {command: {run: x, env: {API_KEY: '${X}'}}}", VALUE, {VALUE}, "a key in the surroundings"),
    ("outputs: o\nstore: '${X}'", "postgresql://me:hunter2@host/runs", {"hunter2"}, "a store whose address holds one"),
    ("outputs: o\nstore: '${X}/runs.sqlite'", "/srv/data", set(), "a store that is a file"),
    (ARGS % "api_key: '${X}'", "abc", set(), "too short to be looked for"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "secret", "why"), WHERE, ids=[row[-1] for row in WHERE])
def test_which_values_are_secret(text: str, value: str, secret: set[str], why: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(f"dataset: d\n{text}\n")
    names = ("X", "INDEX", "MY_KEY", "PGPASSWORD", "EOS_TOKEN")
    plan = read_plan(tmp_path / "plan.yaml", environment=dict.fromkeys(names, value))
    assert plan.secrets == secret, why


def test_braces_of_variables_are_not_placeholders(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "dataset: d\nsystem: {http: {url: 'http://x', request: {q: '{query}', auth: ['${KEY}', '$${KEY}']}}}"
    )
    plan = read_plan(tmp_path / "plan.yaml", environment={"KEY": "a{b}c"})
    assert plan.system is not None
    assert plan.system.options["request"] == {"q": "{query}", "auth": ["a{{b}}c", "${{KEY}"]}


def test_variables_come_from_the_process_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUEPORA_TEST_HOST", "http://here")
    (tmp_path / "plan.yaml").write_text("dataset: d\nsystem: {http: '${AUEPORA_TEST_HOST}/x'}")
    plan = read_plan(tmp_path / "plan.yaml")
    assert plan.system is not None
    assert plan.system.options["url"] == "http://here/x"


def test_value_of_a_variable_does_not_change_the_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("dataset: d\nsystem: {http: '${HOST}/x'}")
    one, other = (
        read_plan(tmp_path / "plan.yaml", environment={"HOST": host}).resolved for host in ("http://a", "http://b")
    )
    assert one == other


REFERENCES = [  # what stands in a header, words, why
    ("${MISSING}", "the environment variable MISSING is not set", "not set"),
    ("${EMPTY}", "the environment variable EMPTY is empty", "empty"),
    ("${my-key}", "cannot read the reference '${my-key}'; write ${NAME}", "no name"),
    ("${KEY:-x}", "cannot read the reference '${KEY:-x}'", "a default, as shells have it"),
    ("${KEY", "cannot read the reference '${KEY'", "no end"),
    ("${}", "cannot read the reference '${}'", "nothing"),
]


@pytest.mark.parametrize(("text", "message", "why"), REFERENCES, ids=[row[2] for row in REFERENCES])
def test_invalid_references(text: str, message: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as raised:
        read(tmp_path, f"dataset: d\nsystem:\n  http:\n    url: http://x\n    headers:\n      A: '{text}'\n")
    assert (raised.value.line, raised.value.key) == (6, "system.http.headers.A")
    assert message in raised.value.problem


WRITTEN_OUT = [  # what stands in a plan, key, why
    (HTTP % "Authorization: 'Bearer geheim'", "system.http.headers.Authorization", "a header"),
    (HTTP % "X-Api-Key: geheim", "system.http.headers.X-Api-Key", "a key of an interface"),
    (HTTP % "Cookie: geheim", "system.http.headers.Cookie", "a cookie"),
    (ARGS % "api_key: geheim", "system.args.api_key", "an argument"),
    (ARGS % "apiKey: geheim", "system.args.apiKey", "in camel case"),
    (ARGS % "APIKEY: geheim", "system.args.APIKEY", "in capitals"),
    (ARGS % "llm: {openai_api_key: geheim}", "system.args.llm.openai_api_key", "an inner argument"),
    (ARGS % "access_token: geheim", "system.args.access_token", "a token"),
    (ARGS % "client_secret: geheim", "system.args.client_secret", "a secret"),
    (ARGS % "db: {password: 1234}", "system.args.db.password", "a password of digits"),
    (ARGS % "tokens: {token: [geheim]}", "system.args.tokens.token[0]", "in a list"),
    (ARGS % "index: 'postgresql://me:geheim@host/db'", "system.args.index", "in an address"),
    ("system: {http: 'http://me:geheim@x/y'}", "system.http", "in the system's address"),
    ("system: {http: {url: 'http://x/y?api_key=geheim'}}", "system.http.url", "in an address's parameter"),
    ("system: {http: {url: 'http://x', request: {token: geheim}}}", "system.http.request.token", "in what is sent"),
    ("system: {python: 'a:b', config: {password: geheim}}", "system.config.password", "in its description"),
    ("system: {command: {run: x, env: {API_KEY: geheim}}}", "system.command.env.API_KEY", "in the surroundings"),
    ("system: {command: 'x --api-key geheim'}", "system.command", "among the words"),
    ("system: {command: {run: [x, --token=geheim]}}", "system.command.run", "in one word"),
    ("outputs: o\nstore: 'postgresql://me:geheim@host/db'", "store", "in the store"),
]


@pytest.mark.parametrize(("text", "key", "why"), WRITTEN_OUT, ids=[row[2] for row in WRITTEN_OUT])
def test_literal_secret_is_refused_and_not_shown(text: str, key: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(f"dataset: d\n{text}\n")
    found = plan_problems(tmp_path / "plan.yaml", environment=VARIABLES)
    assert [getattr(one, "key", None) for one in found] == [key]
    assert "${" in str(found[0])
    assert "geheim" not in str(found[0])


FINE = [
    (HTTP % "Authorization: 'Bearer ${KEY}'", "a reference"),
    (HTTP % "X-Request-Key: abc", "a key that opens nothing"),
    (ARGS % "max_tokens: 512, tokenizer: unicode, token_limit: 5", "tokens of text"),
    (ARGS % "eos_token: '</s>', stop_token: x", "tokens of a model"),
    (ARGS % "api_key: EMPTY", "a stand-in"),
    (ARGS % "api_key: ''", "nothing"),
    (ARGS % "api_key_env: OPENAI_API_KEY", "the name of a variable"),
    (ARGS % "url: 'http://host:8000/a@b'", "a port and an at sign"),
    (ARGS % "password: null, secret: false", "no text"),
    ("system: {command: [sh, -c, 'exec my_app ${KEY}']}", "a script for a shell"),
    ("system: {command: 'x --token-limit 5 --password --verbose'}", "options that carry none"),
    ("outputs: o\nstore: 'postgresql://me@host/db'", "a store without a password"),
]


@pytest.mark.parametrize(("text", "why"), FINE, ids=[row[1] for row in FINE])
def test_values_that_are_not_secret(text: str, why: str, tmp_path: Path) -> None:
    assert read(tmp_path, f"dataset: d\n{text}\n")
