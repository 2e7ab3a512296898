"""The critic in twenty lines, against a real server on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from auepora_eval.errors import JudgeError
from auepora_eval.examples.llm_critic import ServerCritic, main


class _Chat(BaseHTTPRequestHandler):
    """Replies with ``server.reply``, and records the requests."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append((self.path, self.headers["Authorization"], body))
        status, content = server.reply(body)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [{"message": {"content": content}}]}).encode())

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = HTTPServer(("127.0.0.1", 0), _Chat)
    made.asked, made.reply = [], lambda _: (200, "Score: 4")
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def url(server: Any) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def test_score_is_the_last_number_of_the_reply(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert ServerCritic(url(server), "m").score(prompt="Good?") == 4.0
    ((path, key, body),) = server.asked
    assert (path, key) == ("/v1/chat/completions", "Bearer k")
    assert body == {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "Good?"}]}


def test_invalid_replies_have_a_reason(server: Any) -> None:
    critic = ServerCritic(url(server), "m")
    server.reply = lambda _: (200, "I would rather not.")
    with pytest.raises(JudgeError, match="unparseable") as no_number:
        critic.score(prompt="?")
    assert no_number.value.raw == "I would rather not."
    server.reply = lambda _: (500, "")
    with pytest.raises(JudgeError, match="server_error: HTTP 500") as broken:
        critic.score(prompt="?")
    assert broken.value.retry
    server.reply = lambda _: (401, "")
    with pytest.raises(JudgeError, match="HTTP 401") as unknown:
        critic.score(prompt="?")
    assert not unknown.value.retry


def test_missing_server() -> None:
    with pytest.raises(JudgeError, match="unreachable"):
        ServerCritic("http://127.0.0.1:9", "m").score(prompt="?")


def test_main_judges_one_answer(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    server.reply = lambda body: (200, "0.5" if "evidence" in body["messages"][0]["content"] else "0.75")
    main(url(server), "m")
    out = capsys.readouterr().out
    assert "| GENERATION_FAITHFULNESS | llm_faithfulness | 0.5000 |" in out
    assert "| GENERATION_RELEVANCE | llm_answer_quality | 0.7500 |" in out
