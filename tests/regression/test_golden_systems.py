"""Systems under evaluation, as recorded: requests that an HTTP system sends, outputs made of replies, and errors.

Everything goes through ``auepora run`` with a plan, and a real HTTP server on 127.0.0.1.
"""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from auepora_eval import RunStore, SystemOutputs
from auepora_eval.io.codec import encode_output
from helpers.golden import check_golden, check_golden_text

Auepora = Callable[..., tuple[int, str, str]]
Http = dict[str, Any]
Case = dict[str, Any]


class Server(ThreadingHTTPServer):
    """Keeps what it was asked, and answers with what a test gives for the last part of the path, or for the id."""

    daemon_threads = True

    def __init__(self, replies: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = replies
        self.requests: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    """Records one request and replies."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        """Answer any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        # The port differs from run to run, the length follows from the body, the version of the package changes.
        for name in ("host", "content-length", "connection"):
            headers.pop(name, None)
        headers["user-agent"] = re.sub(r"/\S+", "/VERSION", headers.get("user-agent", ""))
        asked = {"method": self.command, "target": self.path, "headers": dict(sorted(headers.items()))}
        self.server.requests.append({**asked, "body": body.decode() if body else None})
        sample_id = json.loads(body)["id"] if body.startswith(b'{"id"') else ""
        reply = self.server.replies.get(sample_id, {"response": {"text": "Yes."}})
        status, more, data = reply if isinstance(reply, tuple) else (200, {}, reply)
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        if "Content-Length" not in more:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = "Content-Length" in more

    do_GET = do_PUT = do_PATCH = do_POST  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(replies: dict[str, Any] | None = None) -> Iterator[Server]:
    """A server that is there within the block."""
    server = Server(replies or {})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Runs:
    """Runs plans of one system each, in a folder of their own."""

    def __init__(self, auepora: Auepora, folder: Path) -> None:
        self._auepora, self._folder = auepora, folder
        self.wording: list[str] = []

    def run(self, name: str, system: Any, samples: list[dict[str, Any]], *, retries: int = 0) -> Case:
        """The exit code, the outputs of all samples, and the lines and keys that errors of the plan name."""
        (self._folder / "data.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples), encoding="utf-8")
        plan = {
            "version": 1,
            "dataset": "data.jsonl",
            "system": system,
            "metrics": ["mean_latency[end_to_end]"],
            "run": {"top_k": 4, "concurrency": 1, "retries": retries, "backoff": 0, "timeout": 20},
        }
        # JSON is YAML: a plan with one key per line has the same lines whatever writes it.
        (self._folder / "plan.yaml").write_text(json.dumps(plan, indent=1), encoding="utf-8")
        store = self._folder / "runs.sqlite"
        code, _, err = self._auepora("run", str(self._folder / "plan.yaml"), "--store", str(store), "--json", "-q")
        case: Case = {"exit": code}
        problems = [line for line in self._plain(err).splitlines() if line.startswith(("Error", "plan.yaml"))]
        if problems:
            found = (re.match(r"(?:Error: )?plan\.yaml:(\d+): ([\w.\[\]-]+): ", line) for line in problems)
            case["errors"] = [None if one is None else [int(one[1]), one[2]] for one in found]
            self.wording += [f"{name}: {line}" for line in problems]
        if code != 2:
            with RunStore.open(store) as opened:
                run_id = opened.find("latest").run_id
                case["outputs"] = [self._output(name, row.sample_id, row.output) for row in opened.outputs(run_id)]
        return case

    def _output(self, name: str, sample_id: str, output: SystemOutputs) -> dict[str, Any]:
        row: dict[str, Any] = json.loads(encode_output(sample_id, output))
        # Measured, so that they differ from run to run.
        row["timings"] = {
            key: "MEASURED" if key in ("end_to_end", "started", "retrieval", "generation") else value
            for key, value in row.get("timings", {}).items()
        }
        if "error" in row:
            reason, _, message = row["error"].partition(": ")
            row["error"] = reason
            self.wording.append(f"{name}, {sample_id}: {reason}: {self._plain(message)}")
        return row

    def _plain(self, text: str) -> str:
        """A message without the temporary folder, the port, and Python's own words for arguments that do not fit."""
        text = text.replace(f"{self._folder}/", "").replace(str(self._folder), "FOLDER")
        text = text.replace(sys.executable, "PYTHON")
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
        return re.sub(r"(got an unexpected|missing a required|too many positional)[^;\n]*", "ARGUMENTS", text)


@pytest.fixture
def runs(auepora: Auepora, tmp_path: Path) -> Runs:
    """Plans and their runs."""
    return Runs(auepora, tmp_path)


def sample(sample_id: str, query: str = "Why?", **fields: Any) -> dict[str, Any]:
    """One line of a dataset."""
    return {"sample_id": sample_id, "query": query, **fields}


# --- requests --------------------------------------------------------------------------------------------------------

SAMPLES = [
    sample("q1", labels={"lang": "en", "level": 2}, metadata={"user": {"name": "Ann"}, "tags": ["a", "b"]}),
    sample(
        'q/2 & "x"?=é',
        'Say "ä",\n{query} \\ {{top_k}} 日本 🙂 &=#%',
        labels={"lang": "de", "a.b": True},
        metadata={"user": {"name": None}, "items": [{"id": 1}, {"id": "two"}], "price": 2.5},
        history=[{"role": "user", "content": "Hallo ü"}, {"role": "assistant", "content": "Hi"}],
        reference_answer={"text": "never sent"},
        relevant_docs=[{"doc_id": "never", "text": "never sent"}],
    ),
]
CHAT = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be {{brief}}."}, {"role": "user", "content": "{query}"}],
    "n": 1,
    "stream": False,
    "user": None,
    "temperature": 0.5,
}
# A request path of the form "?..." is put after the server's address.
REQUESTS: dict[str, Http | str] = {
    "url alone": "/ask",
    "url of the root": "",
    "url with a query": "/ask?v=1&x=a%20b&y=ä",
    "url with letters of another script": "/fräge/日本",
    "url with a fragment": "/ask#part",
    "url with user and password": {"url": "user:${GOLDEN_TOKEN}@/ask"},
    "method get": {"url": "/ask", "method": "GET"},
    "method get and a query": {"url": "/ask?v=1", "method": "get", "request": {"q": "{query}"}},
    "method get with values of every kind": {
        "url": "/ask",
        "method": "GET",
        "request": {
            "q": "{query}",
            "k": "{top_k}",
            "tags": "{metadata.tags?}",
            "none": None,
            "yes": True,
            "ratio": 0.5,
            "labels": "{labels}",
            "list": [1, "two", None],
        },
    },
    "method put": {"url": "/ask", "method": "put", "request": {"q": "{query}"}},
    "method patch": {"url": "/ask", "method": "PATCH", "request": {"q": "{query}"}},
    "headers": {
        "url": "/ask",
        "headers": {"X-Golden": " spaces around ", "x-lower": "é", "Authorization": "Bearer ${GOLDEN_TOKEN}"},
    },
    "headers that replace": {
        "url": "/ask",
        "headers": {"accept": "text/json", "CONTENT-TYPE": "application/x-json", "user-agent": "mine/1"},
    },
    "variables": {"url": "/${GOLDEN_PLACE}/ask", "request": {"key": "${GOLDEN_TOKEN}", "q": "{query}"}},
    "placeholders alone": {"url": "/ask", "request": {"q": "{query}", "id": "{sample_id}", "k": "{top_k}"}},
    "placeholders in texts": {"url": "/ask", "request": {"q": "<{query}> {top_k}/{labels.lang}{labels.level?}"}},
    "braces": {"url": "/ask", "request": {"q": "{{query}} {{{{ }}}} {{{top_k}}}"}},
    "spaces in a placeholder": {"url": "/ask", "request": {"q": "{ query }"}},
    "history": {"url": "/ask", "request": {"all": "{history}", "text": "h: {history}"}},
    "first turn": {"url": "/ask", "request": {"first": "{history[0].content?}", "roles": "{history[*].role}"}},
    "labels and metadata": {"url": "/ask", "request": {"labels": "{labels}", "metadata": "{metadata}"}},
    "path into metadata": {
        "url": "/ask",
        "request": {"name": "{metadata.user.name}", "text": "name: {metadata.user.name}", "one": "{metadata.tags[1]?}"},
    },
    "every item": {"url": "/ask", "request": {"ids": "{metadata.items[*].id?}", "tags": "{metadata.tags[*]?}"}},
    "key in quotes": {"url": "/ask", "request": {"ab": "{labels.'a.b'?}", "inline": "({labels.'a.b'?})"}},
    "optional and absent": {"url": "/ask", "request": {"alone": "{labels.none?}", "inline": "[{labels.none?}]"}},
    "required and absent": {"url": "/ask", "request": {"level": "{labels.level}"}},
    "list": {"url": "/ask", "request": [1, "{query}", {"k": ["{top_k}"]}, None, 1e300, ""]},
    "text": {"url": "/ask", "request": "{query}"},
    "constant": {"url": "/ask", "request": {}},
    "keys are left alone": {"url": "/ask", "request": {"{query}": "{top_k}", "ä": ""}},
    "chat": {"url": "/v1/chat/completions", "request": CHAT},
}


@pytest.mark.slow
def test_requests(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOLDEN_TOKEN", "golden-token")
    monkeypatch.setenv("GOLDEN_PLACE", "here")
    cases = {}
    with serving() as server:
        for name, http in REQUESTS.items():
            server.requests.clear()
            case = runs.run(name, {"http": at(server, http)}, SAMPLES)
            failed = [[one["sample_id"], one["error"]] for one in case.pop("outputs", ()) if "error" in one]
            cases[name] = {**case, **({"failed": failed} if failed else {}), "requests": list(server.requests)}
    check_golden("systems/requests.json", cases)
    check_golden_text("systems/requests_wording.txt", "\n".join(runs.wording) + "\n")


def at(server: Server, http: Http | str) -> Any:
    """A section ``http`` whose url is a path, possibly after a user, with the server's address before it."""
    if isinstance(http, dict):
        return {**http, "url": at(server, http["url"])} if "url" in http else http
    user, sign, path = http.rpartition("@")
    return f"http://{user}{sign}127.0.0.1:{server.server_port}{path}"


URL = "http://127.0.0.1:9/ask"
PATHS = {"answer": "a"}
PLAN_ERRORS: dict[str, Any] = {
    "system is a text": "my_app.rag:build",
    "system is an address": URL,
    "two kinds of systems": {"http": URL, "command": "cat"},
    "no kind of system": {"config": {}},
    "args with http": {"http": URL, "args": {}},
    "misspelt key": {"http": {"url": URL, "methd": "GET"}},
    "url is missing": {"http": {"method": "GET"}},
    "url has another scheme": {"http": "ftp://127.0.0.1/ask"},
    "url has no host": {"http": "http:///ask"},
    "url has a placeholder": {"http": "http://127.0.0.1:9/{query}"},
    "url has a space": {"http": "http://127.0.0.1:9/a b"},
    "url has a bad port": {"http": "http://127.0.0.1:99999/"},
    "url names a variable that is not set": {"http": "http://${GOLDEN_NOT_SET}/ask"},
    "method is unknown": {"http": {"url": URL, "method": "DELETE"}},
    "header is set for every request": {"http": {"url": URL, "headers": {"Host": "x"}}},
    "header name": {"http": {"url": URL, "headers": {"a b": "x"}}},
    "header holds a line break": {"http": {"url": URL, "headers": {"A": "x\ny"}}},
    "header is a number": {"http": {"url": URL, "headers": {"A": 7}}},
    "header beyond latin 1": {"http": {"url": URL, "headers": {"A": "日本"}}},
    "user in url and headers": {
        "http": {"url": "http://u:${GOLDEN_TOKEN}@127.0.0.1:9/", "headers": {"Authorization": "x"}}
    },
    "get with a list": {"http": {"url": URL, "method": "GET", "request": ["{query}"]}},
    "unknown placeholder": {"http": {"url": URL, "request": {"a": {"b": ["{answer}"]}}}},
    "misspelt placeholder": {"http": {"url": URL, "request": "{qeury}"}},
    "empty placeholder": {"http": {"url": URL, "request": {"q": "{}"}}},
    "single opening brace": {"http": {"url": URL, "request": {"q": "a { b"}}},
    "single closing brace": {"http": {"url": URL, "request": {"q": "a } b"}}},
    "placeholder without quotes": {"http": {"url": URL, "request": {"q": {"query": None}}}},
    "path into a text": {"http": {"url": URL, "request": {"q": "{query.text}"}}},
    "placeholder with a bad path": {"http": {"url": URL, "request": {"q": "{labels..lang}"}}},
    "gold cannot be asked for": {"http": {"url": URL, "request": {"q": "{reference_answer}"}}},
    "response is a text": {"http": {"url": URL, "response": "data.answer"}},
    "response has an unknown key": {"http": {"url": URL, "response": {"answer": "a", "anwser": "b"}}},
    "response without answer and retrieved": {"http": {"url": URL, "response": {"citations": "c"}}},
    "response.doc_id without retrieved": {"http": {"url": URL, "response": {"answer": "a", "doc_id": "id"}}},
    "path is empty": {"http": {"url": URL, "response": {"answer": " "}}},
    "path is a question mark": {"http": {"url": URL, "response": {"answer": "?"}}},
    "path is a number": {"http": {"url": URL, "response": {"answer": 7}}},
    "path with two dots": {"http": {"url": URL, "response": {"answer": "a..b"}}},
    "path with a dot first": {"http": {"url": URL, "response": {"answer": ".a"}}},
    "path with a dot last": {"http": {"url": URL, "response": {"answer": "a."}}},
    "path with an open bracket": {"http": {"url": URL, "response": {"answer": "a[0"}}},
    "path with a negative index": {"http": {"url": URL, "response": {"answer": "a[-1]"}}},
    "path with a word as index": {"http": {"url": URL, "response": {"answer": "a[x]"}}},
    "path with an open quote": {"http": {"url": URL, "response": {"answer": 'a."b'}}},
    "path with a key after a bracket": {"http": {"url": URL, "response": {"answer": "a[0]b"}}},
    "path with a question mark inside": {"http": {"url": URL, "response": {"answer": "a?.b"}}},
    "command is missing": {"command": ""},
    "command is a number": {"command": 7},
    "command with an open quote": {"command": "cat 'x"},
    "command with a variable": {"command": ["cat", "${HOME}"]},
    "command that is not there": {"command": ["golden-no-such-program"]},
    "command in no folder": {"command": {"run": "cat", "cwd": "no_such_folder"}},
    "command with a number in env": {"command": {"run": "cat", "env": {"A": 7}}},
    "command with an unknown key": {"command": {"run": "cat", "dir": "."}},
    "python without a name": {"python": "my_module"},
    "python as a file": {"python": "my_module.py:build"},
    "python module is not there": {"python": "golden_no_such_module:build"},
}


def test_errors_of_plans(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOLDEN_TOKEN", "golden-token")
    cases = {name: runs.run(name, system, [sample("q1")]) for name, system in PLAN_ERRORS.items()}
    check_golden("systems/plan_errors.json", cases)
    check_golden_text("systems/plan_errors_wording.txt", "\n".join(runs.wording) + "\n")


# --- replies ---------------------------------------------------------------------------------------------------------

OWN_REPLIES: dict[str, Any] = {
    "everything": {
        "sample_id": "everything",
        "retrieved": [
            {
                "doc": {"doc_id": "a", "text": "A.", "metadata": {"p": 1}, "parent_id": "P", "span": [0, 2]},
                "score": 0.5,
            },
            "b",
        ],
        "response": {"text": "Yes.", "structured": {"x": 1}, "sentences": [{"text": "Yes.", "citations": ["a"]}]},
        "timings": {"search": 0.25},
        "extra": {"k": [1]},
        "refused": False,
        "citations": ["a"],
        "steps": [{"query": "q", "retrieved": ["a"]}],
        "usage": {"input_tokens": 3},
    },
    "no id": {"response": {"text": "Yes."}, "retrieved": []},
    "answer alone": {"response": {"text": ""}},
    "ranking alone": {"retrieved": ["a", "b", "a"]},
    "answer is a text": {"response": "Yes."},
    "id of another": {"sample_id": "q9", "response": {"text": "Yes."}},
    "id is a number": {"sample_id": 5, "response": {"text": "Yes."}},
    "unknown field": {"answer": "Yes."},
    "nothing": {},
    "error": {"error": "out of memory"},
    "error and more": {"error": "half", "retrieved": ["a"]},
    "wrong type": {"retrieved": {"doc_id": "a"}},
    "score is NaN": b'{"retrieved": [{"doc": "a", "score": NaN}]}',
    "list": [{"response": {"text": "Yes."}}],
    "text": b'"Yes."',
    "half": b'{"response": {"text": "Ye',
    "page": b"<html><body>Bad gateway</body></html>",
    "byte order mark": b'\xef\xbb\xbf{"response": {"text": "Yes."}}',
    "no utf-8": b'{"response": {"text": "\xff"}}',
    "spaces alone": b"  \n",
    "empty": b"",
    "key twice": b'{"response": {"text": "one"}, "response": {"text": "two"}}',
    "status 500": (500, {}, b"it\nbroke"),
    "status 503 and when to come back": (503, {"Retry-After": "0"}, b""),
    "status 429": (429, {"Retry-After": "0"}, b"slow down"),
    "status 404": (404, {}, {"detail": "no such place"}),
    "status 401 that repeats the token": (401, {}, b"bad token golden-token"),
    "status 302": (302, {"Location": "http://u:p@127.0.0.1/other?key=1"}, b""),
    "status 204": (204, {}, b""),
    "status 201": (201, {}, {"response": {"text": "Yes."}}),
    "status 299": (299, {}, {"response": {"text": "Yes."}}),
    "status 599": (599, {}, b""),
    "compressed": (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"),
    "cut off": (200, {"Content-Length": "1000"}, b'{"response"'),
    "no reply": (None, {}, b""),
}
DATA = {
    "answer": "data.answer",
    "retrieved": "data.hits",
    "doc_id": "id",
    "text": "body.text?",
    "score": "s?",
    "metadata": "meta?",
    "parent_id": "p?",
    "citations": "cites?",
    "refused": "flags.refused?",
    "error": "err",
    "usage": "usage?",
    "timings": "t?",
    "steps": "steps?",
    "sample_id": "for?",
}


def data(*hits: Any, answer: Any = "Yes.", **more: Any) -> dict[str, Any]:
    """A reply in which the answer and the hits are under ``data``."""
    return {"data": {"answer": answer, "hits": list(hits)}, **more}


DATA_REPLIES: dict[str, Any] = {
    "everything": data(
        {"id": "a", "body": {"text": "A."}, "s": 0.5, "meta": {"x": 1}, "p": "P"},
        {"id": 7, "s": 3},
        {"id": 1.5, "body": {"text": None}, "s": None, "meta": None, "p": None},
        cites=["a", 7],
        flags={"refused": True},
        usage={"tokens": 5, "cost": None},
        t={"search": 0.5, "rank": 1, "none": None},
        steps=[{"query": "x"}, None],
        **{"for": "everything"},
    ),
    "no hits": data(),
    "optional values are null": data(cites=None, flags={"refused": None}, usage=None, t=None, steps=None, err=None),
    "answer is missing": {"data": {"hits": []}},
    "answer is null": data(answer=None),
    "answer is a number": data(answer=5),
    "data is missing": {"other": 1, "more": 2},
    "data is null": {"data": None},
    "reply is a list": [1],
    "hits are missing": {"data": {"answer": "Yes."}},
    "hits are null": {"data": {"answer": "Yes.", "hits": None}},
    "hits are an object": {"data": {"answer": "Yes.", "hits": {"a": 1}}},
    "hit is a text": data("a"),
    "hit without id": data({"id": "a"}, {"key": "b"}),
    "id is true": data({"id": True}),
    "id is empty": data({"id": ""}),
    "id is null": data({"id": None}),
    "id is a list": data({"id": ["a"]}),
    "text is a number": data({"id": "a", "body": {"text": 5}}),
    "score is a text": data({"id": "a", "s": "0.5"}),
    "score is too large": data({"id": "a", "s": 10**400}),
    "metadata is a list": data({"id": "a", "meta": [1]}),
    "citations are an object": data(cites={"a": 1}),
    "citation is an object": data(cites=[{"id": "a"}]),
    "refused is a text": data(flags={"refused": "yes"}),
    "timing is a text": data(t={"search": "fast"}),
    "usage is a number": data(usage=5),
    "step is a text": data(steps=["x"]),
    "for another sample": data(**{"for": "q9"}),
    "error is a text": data(err="out of memory"),
    "error is an object": {"err": {"code": 7, "detail": "ü"}},
    "error is empty": data(err=""),
    "error is false": data(err=False),
}
OTHER_REPLIES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "ids alone": (
        {"retrieved": "docs"},
        {"texts": {"docs": ["a", "b"]}, "numbers": {"docs": [1, 2.5]}, "empty text": {"docs": ["a", ""]}},
    ),
    "items with the usual names": (
        {"retrieved": "docs"},
        {
            "doc_id, text, score": {"docs": [{"doc_id": "a", "text": "A.", "score": 1}, {"doc_id": "b"}]},
            "id": {"docs": [{"id": "a"}]},
            "null": {"docs": [None]},
        },
    ),
    "every item": (
        {"retrieved": "groups[*].id", "answer": "groups[0].text"},
        {"two": {"groups": [{"id": "a", "text": "A"}, {"id": "b"}]}, "none": {"groups": []}, "no id": {"groups": [{}]}},
    ),
    "the whole": ({"answer": "."}, {"text": b'"Yes."', "object": {"a": 1}}),
    "the whole as a ranking": ({"retrieved": ".", "doc_id": "."}, {"texts": ["a", "b"], "numbers": [1]}),
    "keys in quotes": (
        {"answer": "\"a.b\".'c?'[1]", "citations": " refs .ids ?"},
        {"there": {"a.b": {"c?": ["x", "y"]}, "refs": {"ids": []}}, "not there": {"a.b": {"c?": ["x"]}}},
    ),
    "chat": (
        {"answer": "choices[0].message.content", "usage": "usage?"},
        {
            "usual": {"choices": [{"message": {"content": "Yes."}}], "usage": {"total_tokens": 5}},
            "no choice": {"choices": []},
            "null": {"choices": [{"message": {"content": None}}]},
        },
    ),
    "optional answer": (
        {"answer": "a?", "retrieved": "r?"},
        {"both": {"a": "Yes.", "r": ["x"]}, "neither": {}, "null": {"a": None, "r": None}, "one": {"r": []}},
    ),
}


def test_replies(runs: Runs) -> None:
    tables: dict[str, tuple[dict[str, str] | None, dict[str, Any]]] = {
        "own format": (None, OWN_REPLIES),
        "paths": (DATA, DATA_REPLIES),
        **OTHER_REPLIES,
    }
    cases = {}
    for name, (paths, replies) in tables.items():
        with serving(replies) as server:
            http = {
                "url": at(server, "/ask"),
                "headers": {"X-Key": "golden-token"},
                "request": {"id": "{sample_id}"},
                **({} if paths is None else {"response": paths}),
            }
            case = runs.run(name, {"http": http}, [sample(sample_id) for sample_id in replies], retries=1)
            asked = [json.loads(one["body"])["id"] for one in server.requests]
        # What may pass is asked for once more.
        cases[name] = {**case, "asked_twice": [one for one in replies if asked.count(one) == 2]}
    assert sum(len(case["outputs"]) for case in cases.values()) >= 60
    check_golden("systems/replies.json", cases)
    check_golden_text("systems/replies_wording.txt", "\n".join(runs.wording) + "\n")


# --- commands --------------------------------------------------------------------------------------------------------

PROGRAM = r"""
import json, os, sys
print("ready")
for line in sys.stdin:
    asked = json.loads(line)
    kind, head = asked["sample_id"], {"sample_id": asked["sample_id"]}
    if kind.startswith("echo"):
        answer = {**head, "retrieved": [], "response": {"text": line}, "extra": {"env": os.environ["GOLDEN_ENV"]}}
    elif kind == "noise":
        print("loading ...\n{'not': 'json'}\n[1, 2]\n")
        answer = {**head, "response": {"text": "Yes."}}
    elif kind == "another id":
        answer = {"sample_id": "q9", "response": {"text": "Yes."}}
    elif kind == "no id":
        answer = {"response": {"text": "Yes."}}
    elif kind == "unknown field":
        answer = {**head, "answer": "Yes."}
    elif kind == "error":
        answer = {**head, "error": "out of memory"}
    elif kind == "nothing":
        answer = head
    elif kind == "no json":
        print('{"sample_id": ')
        continue
    elif kind == "dies":
        print("last words", file=sys.stderr)
        sys.exit(3)
    elif kind == "leaves":
        sys.exit(0)
    print(json.dumps(answer))
"""
ASKED = [
    "echo",
    "noise",
    "another id",
    "no id",
    "unknown field",
    "error",
    "nothing",
    "no json",
    "dies",
    "leaves",
    "echo 2",
]


def test_commands(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "program.py").write_text(PROGRAM, encoding="utf-8")
    asked = [
        sample("echo", 'Say "ä"\n日本 🙂', history=[{"role": "user", "content": "Hi"}], labels={"lang": "en"}),
        *(sample(name) for name in ASKED[1:]),
    ]
    python = [sys.executable, "-S", "program.py"]
    cases = {
        "in the plan's folder": runs.run("command", {"command": {"run": python, "env": {"GOLDEN_ENV": "1"}}}, asked),
        "in another folder": runs.run(
            "other folder", {"command": {"run": python, "cwd": "below", "env": {"GOLDEN_ENV": "ä"}}}, asked[:1]
        ),
    }
    check_golden("systems/commands.json", cases)
    check_golden_text("systems/commands_wording.txt", "\n".join(runs.wording) + "\n")


# --- Python objects --------------------------------------------------------------------------------------------------

MODULE = """
from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import SystemCallError

def documents(*ids):
    return [RetrievedDocument(Document(one, f"Text of {one}."), 1.0 / rank, rank) for rank, one in enumerate(ids, 1)]

def function(sample, *, top_k):
    if sample.sample_id == "raises":
        raise ValueError("no such thing")
    if sample.sample_id == "says why":
        raise SystemCallError("out_of_stock", "nothing left")
    if sample.sample_id == "none":
        return None
    if sample.sample_id == "dict":
        return {"response": "x"}
    if sample.sample_id == "not documents":
        return SystemOutputs(["a", "b"])
    if sample.sample_id == "bad answer":
        return SystemOutputs([], "a text")
    return SystemOutputs(documents("a", "b"), Response(f"{sample.query} {top_k}"))

class System:
    def __init__(self, answer="default", **more):
        self.answer, self.more = answer, more
    def run(self, sample, *, top_k=5):
        return SystemOutputs([], Response(self.answer), extra=self.more)

class Async:
    async def arun(self, sample, *, top_k):
        return SystemOutputs(documents("async"), Response("async"))

class Parts:
    def retrieve(self, query, *, top_k):
        return documents(*"abcdef")[:top_k]
    def generate(self, query, documents):
        if query == "fail":
            raise RuntimeError("generator failed")
        return Response(f"{query} from {[one.doc_id for one in documents]}")

class Retriever:
    async def retrieve(self, query, *, top_k):
        return documents("only")

pair = (Parts(), Parts())
ready = System("ready")

def build(answer):
    return System(answer, built=True)

def returns_none():
    return None

def breaks():
    raise RuntimeError("cannot be built")

async def async_build():
    return System()

def takes_text(query: str, *, top_k):
    return None

def yields(sample, *, top_k):
    yield None

def no_depth(sample):
    return None

class OnlyGenerate:
    def generate(self, query, documents):
        return Response("x")
"""
ALL_KINDS = ["q1", "raises", "says why", "none", "dict", "not documents", "bad answer"]
PYTHON: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "function": ({"python": "golden_python_system:function"}, [sample(name) for name in ALL_KINDS]),
    "class": ({"python": "golden_python_system:System"}, [sample("q1")]),
    "class with args": ({"python": "golden_python_system:System", "args": {"answer": "x", "k": 1}}, [sample("q1")]),
    "async": ({"python": "golden_python_system:Async"}, [sample("q1")]),
    "parts": ({"python": "golden_python_system:Parts"}, [sample("q1"), sample("q2", "fail")]),
    "retriever alone": ({"python": "golden_python_system:Retriever"}, [sample("q1")]),
    "pair": ({"python": "golden_python_system:pair"}, [sample("q1")]),
    "object": ({"python": "golden_python_system:ready"}, [sample("q1")]),
    "method of an object": ({"python": "golden_python_system:ready.run"}, [sample("q1")]),
    "factory": ({"python": "golden_python_system:build", "args": {"answer": "made"}}, [sample("q1")]),
    "factory without its argument": ({"python": "golden_python_system:build"}, [sample("q1")]),
    "factory with another argument": (
        {"python": "golden_python_system:build", "args": {"anwser": "x"}},
        [sample("q1")],
    ),
    "factory of nothing": ({"python": "golden_python_system:returns_none"}, [sample("q1")]),
    "factory that raises": ({"python": "golden_python_system:breaks"}, [sample("q1")]),
    "async factory": ({"python": "golden_python_system:async_build"}, [sample("q1")]),
    "object with args": ({"python": "golden_python_system:ready", "args": {"a": 1}}, [sample("q1")]),
    "takes a text": ({"python": "golden_python_system:takes_text"}, [sample("q1")]),
    "generator function": ({"python": "golden_python_system:yields"}, [sample("q1")]),
    "without top_k": ({"python": "golden_python_system:no_depth"}, [sample("q1")]),
    "generate alone": ({"python": "golden_python_system:OnlyGenerate"}, [sample("q1")]),
    "misspelt name": ({"python": "golden_python_system:functoin"}, [sample("q1")]),
    "misspelt module": ({"python": "golden_python_systm:function"}, [sample("q1")]),
    "module that raises": ({"python": "golden_broken_system:function"}, [sample("q1")]),
    "module that needs another": ({"python": "golden_needy_system:function"}, [sample("q1")]),
}


def test_python_objects(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder of a plan is put on it
    modules = {
        "golden_python_system": MODULE,
        "golden_broken_system": "x = 1\nraise RuntimeError('not today')\n",
        "golden_needy_system": "import golden_no_such_package\n",
    }
    for name, text in modules.items():
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that it is gone after the test
        del sys.modules[name]
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    cases = {name: runs.run(name, system, samples) for name, (system, samples) in PYTHON.items()}
    check_golden("systems/python.json", cases)
    check_golden_text("systems/python_wording.txt", "\n".join(runs.wording) + "\n")
