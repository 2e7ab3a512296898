"""The workbench on a real server in a thread, requests to it, and its pages in a real browser."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from auepora_eval.store.runs import RunStore
from auepora_eval.ui.security import CSRF_HEADER, Access
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


@dataclass(frozen=True, slots=True)
class UiServer:
    """A running workbench."""

    workbench: Workbench
    access: Access

    @property
    def address(self) -> str:
        """The address without token and path."""
        return f"http://127.0.0.1:{self.access.port}"

    @property
    def cookie(self) -> str:
        return f"{self.access.cookie}={self.access.session}"

    def get(self, path: str, **headers: str) -> Reply:
        """GET with the cookie; ``sec_fetch_dest`` is the header Sec-Fetch-Dest."""
        return self.request("GET", path, headers={"cookie": self.cookie} | headers)

    def post(self, path: str, fields: Mapping[str, Any] | None = None, **headers: str) -> Reply:
        """POST a form with the cookie and the CSRF token; a list repeats its field."""
        common = {
            "cookie": self.cookie,
            CSRF_HEADER: self.access.csrf_token,
            "content-type": "application/x-www-form-urlencoded",
        }
        return self.request("POST", path, body=urlencode(fields or {}, doseq=True), headers=common | headers)

    def request(self, method: str, path: str, *, body: str | None = None, headers: Mapping[str, str]) -> Reply:
        """A request with exactly these headers, and Host unless it is given."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=30)) as connection:
            connection.request(method, path, body, named)
            response = connection.getresponse()
            text = response.read().decode()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, text)


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
            thread.join(5)
            assert not thread.is_alive()


@contextmanager
def workbench_page(
    browser: Any, server: UiServer, path: str = "/runs", *, expected: tuple[str, ...] = (), **context: Any
) -> Iterator[Any]:
    """A page of the workbench in the browser, signed in.

    At the end nothing was complained about, such as a violation of the policy or an error in a script, no dialog was
    opened, and no request went elsewhere. ``expected`` are parts of complaints that the test causes on purpose.
    """
    made = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    try:
        made.set_default_timeout(30_000)
        made.add_cookies([{"name": server.access.cookie, "value": server.access.session, "url": server.address}])
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
