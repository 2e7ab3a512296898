"""The workbench on a real server in a thread, requests to it, and its pages in a real browser."""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from auepora_eval.store.runs import RunStore
from auepora_eval.ui.security import CSRF_HEADER, NAME_COOKIE, Access
from auepora_eval.ui.server import WorkbenchServer, open_socket
from auepora_eval.ui.workbench import Workbench
from helpers.browser_page import Watched


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class UiClient:
    """Requests to a workbench by someone who is signed in."""

    port: int
    cookie: str
    """The header Cookie."""
    csrf_token: str
    name_secret: str = "secret-of-this-client"
    """The cookie that claims the names of annotators."""

    @property
    def address(self) -> str:
        """The address without token and path."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Reply:
        """GET with the cookie; ``sec_fetch_dest`` is the header Sec-Fetch-Dest."""
        return self.request("GET", path, headers={"cookie": self.cookie} | headers)

    def post(self, path: str, fields: Mapping[str, Any] | None = None, **headers: str) -> Reply:
        """POST a form with the cookie and the CSRF token; a list repeats its field."""
        common = {
            "cookie": self.cookie,
            CSRF_HEADER: self.csrf_token,
            "content-type": "application/x-www-form-urlencoded",
        }
        return self.request("POST", path, body=urlencode(fields or {}, doseq=True), headers=common | headers)

    def request(self, method: str, path: str, *, body: str | None = None, headers: Mapping[str, str]) -> Reply:
        """A request with exactly these headers, and Host unless it is given."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if "cookie" in named:
            named["cookie"] += f"; {NAME_COOKIE}={self.name_secret}"
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, body, named)
            response = connection.getresponse()
            text = response.read().decode()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, text)


class UiServer(UiClient):
    """A running workbench."""

    def __init__(self, workbench: Workbench, access: Access) -> None:
        self.workbench, self.access, self.port = workbench, access, access.port
        self.sign_in()

    def sign_in(self) -> None:
        """Send the cookie and the CSRF token of the server from now on."""
        self.cookie, self.csrf_token = f"{self.access.cookie}={self.access.session}", self.access.csrf_token

    def change_secrets(self) -> None:
        """Change what a restart of the server changes; this client is signed in again, browsers are not."""
        for name in ("token", "session", "csrf_token", "label_key"):
            object.__setattr__(self.access, name, f"next-{getattr(self.access, name)}")
        self.sign_in()


class UiProcess(UiClient):
    """``auepora ui`` in a process of its own. After ``kill`` it can be started again, on the same port."""

    def __init__(self, *arguments: str) -> None:
        self.arguments, self.port, self.url = arguments, 0, ""

    def start(self) -> None:
        """Start the server and sign in."""
        self.process, self.url = start_process(*self.arguments, port=self.port)
        self.port = int(self.url.partition("127.0.0.1:")[2].partition("/")[0])
        signed_in = self.request("GET", self.url.removeprefix(self.address), headers={})
        self.cookie = signed_in.headers["set-cookie"].partition(";")[0]
        found = re.search(r'name="csrf-token" content="([^"]+)"', self.get("/plans").text)
        assert found is not None
        self.csrf_token = found[1]

    def kill(self) -> None:
        """End the process at once, as ``kill -9`` does."""
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> "UiProcess":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


def start_process(*arguments: str, port: int = 0) -> tuple["subprocess.Popen[str]", str]:
    """Start ``auepora ui`` in a process; return it with the address that it printed."""
    command = [sys.executable, "-m", "auepora_eval", "ui", "--no-open", "--port", str(port), "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(process.communicate()[1])
    return process, json.loads(line)["url"]


@contextmanager
def ui_server(store: RunStore, *, plans: Path | None = None) -> Iterator[UiServer]:
    """The workbench of a store on a free port. The store stays open."""
    workbench = Workbench(store, plans=plans)
    with closing(open_socket(0)) as listening:
        server = WorkbenchServer(workbench, listening)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield UiServer(workbench, server.access)  # connections wait in the queue of the socket until it has started
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


FILLED = """() => {
  const isNear = (one) => one.getBoundingClientRect().top < innerHeight + 400 && one.getBoundingClientRect().bottom > -400;
  const isEmpty = (one) => one.checkVisibility() && isNear(one) && !one.querySelector("[role=alert]");
  const parts = [...document.querySelectorAll("[data-fragment]:not([data-filled])")];
  return document.readyState === "complete" && !document.querySelector("[aria-busy=true]") && !parts.some(isEmpty);
}"""
"""Whether the page is loaded, and every fragment in view or near it; margin as in shell.js."""


def wait_until_filled(page: Any) -> None:
    """Wait until the page is loaded and no part of it waits for a fragment.

    A step by keyboard or a read text needs it after a change of filters: the address changes before the list does. The
    network may be idle in between, and the browser does not wait for it again after the first load.
    """
    page.wait_for_function(FILLED)


@contextmanager
def workbench_page(
    browser: Any, server: UiClient, path: str = "/runs", *, expected: tuple[str, ...] = (), **context: Any
) -> Iterator[Any]:
    """A page of the workbench in the browser, signed in.

    At the end nothing was complained about, such as a violation of the policy or an error in a script, no dialog was
    opened, and no request went elsewhere. ``expected`` are parts of complaints that the test causes on purpose.
    """
    made = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    try:
        made.set_default_timeout(30_000)
        name, _, value = server.cookie.partition("=")
        made.add_cookies([{"name": name, "value": value, "url": server.address}])
        watched = Watched(made.new_page())
        watched.page.goto(server.address + path)
        yield watched.page
        own = (f"{server.address}/", "data:", "blob:")
        problems = [one for one in watched.complaints if not any(part in one for part in expected)]
        problems += [f"dialog: {text}" for text in watched.dialogs]
        problems += [f"request to {url}" for url in watched.requests if not url.startswith(own)]
        assert not problems, "\n".join(problems)
    finally:
        made.close()
