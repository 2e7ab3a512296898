"""Access to the workbench: token, cookie, Host, Origin, CSRF token and response headers, by requests to a real server."""

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import pytest

from auepora_eval.store.runs import RunStore
from auepora_eval.ui.security import CSRF_FIELD, MAX_BODY
from helpers.stored_runs import samples
from helpers.ui_server import UiServer, ui_server

RUN = "run-1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as store:
        store.create_run("first", samples(2), dataset_name="made", plan={}, run_id=RUN)
        store.finish(RUN)
        with ui_server(store) as running:
            yield running


def test_the_token_becomes_a_cookie(server: UiServer) -> None:
    reply = server.request("GET", f"/runs?q=a%26b&token={server.access.token}&page=2", headers={})
    assert (reply.status, reply.headers["location"]) == (303, "/runs?q=a%26b&page=2")
    name, _, rest = reply.headers["set-cookie"].partition("=")
    assert name == f"auepora_ui_{server.access.port}"
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(rest.split("; "))
    assert server.access.token not in str(reply)
    signed_in = server.request("GET", "/runs", headers={"cookie": reply.headers["set-cookie"].partition(";")[0]})
    assert signed_in.status == 200


def test_the_token_of_annotators_opens_labels_alone(server: UiServer) -> None:
    token = server.access.label_token("none")
    reply = server.request("GET", f"/label/none?as=a&token={token}", headers={})
    assert (reply.status, reply.headers["location"]) == (303, "/label/none?as=a")
    cookie = reply.headers["set-cookie"].partition(";")[0]
    expected = {"/label/none": 404, "/label/none/../../runs": 404, "/assets/theme.css": 200}
    closed = (
        "/",
        "/runs",
        f"/runs/{RUN}",
        "/batches",
        "/labels",
        "/live/events",
        "//label/x",
        "/label/other",
        "/label/other?as=a",
        "/label/nonesuch",
        "/label/../runs",
        "/label/..%2fruns",
        f"/runs?token={token}",
    )
    expected |= dict.fromkeys(closed, 403)
    assert {path: server.request("GET", path, headers={"cookie": cookie}).status for path in expected} == expected
    csrf = server.access.csrf_token_for("annotator", "/label/none")
    assert server.post("/label/none/label", cookie=cookie, x_csrf_token=csrf).status == 404
    assert server.post("/label/none/label", cookie=cookie).status == 403, "the CSRF token is that of the organiser"
    assert server.post("/batches/new", cookie=cookie).status == 403
    assert server.post("/batches/new", x_csrf_token=csrf).status == 403, "that of an annotator"
    assert server.request("GET", "/runs", headers={"cookie": f"{cookie}; {server.cookie}"}).status == 200


def test_the_redirect_stays_on_this_host(server: UiServer) -> None:
    reply = server.request("GET", f"//example.com/x?token={server.access.token}", headers={})
    assert reply.headers["location"] == "/example.com/x"


REFUSED = {
    "no cookie": {},
    "wrong token": {"path": "/runs?token=wrong"},
    "token that is not ASCII": {"path": "/runs?token=%C3%A4"},
    "wrong cookie": {"cookie": "auepora_ui_{port}=wrong"},
    "cookie of another server": {"cookie": "auepora_ui_1={session}"},
    "cookie header that cannot be read": {"cookie": "\x7f=;;=,"},
    "no name of this host": {"cookie": "{cookie}", "host": "example.com"},
    "name that resolves to this host": {"cookie": "{cookie}", "host": "evil.example:{port}"},
    "other port": {"cookie": "{cookie}", "host": "127.0.0.1:1"},
    "host without port": {"cookie": "{cookie}", "host": "127.0.0.1"},
    "other origin": {"cookie": "{cookie}", "origin": "http://evil.example"},
    "other port as origin": {"cookie": "{cookie}", "origin": "http://127.0.0.1:1"},
    "encrypted origin": {"cookie": "{cookie}", "origin": "https://127.0.0.1:{port}"},
    "no origin (file, sandbox)": {"cookie": "{cookie}", "origin": "null"},
    "sandboxed frame": {"cookie": "{cookie}", "origin": "null", "sec-fetch-site": "cross-site"},
    "script of another site": {"cookie": "{cookie}", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    "script of another port": {"cookie": "{cookie}", "sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    "frame in another page": {"cookie": "{cookie}", "sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"},
    "object in another page": {"cookie": "{cookie}", "sec-fetch-site": "same-site", "sec-fetch-dest": "object"},
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_a_request_without_access_is_refused(server: UiServer, given: dict[str, str]) -> None:
    values = {"port": server.access.port, "session": server.access.session, "cookie": server.cookie}
    headers = {name: value.format(**values) for name, value in given.items() if name != "path"}
    for path in (given.get("path", "/runs"), "/assets/theme.css"):
        reply = server.request("GET", path, headers=headers)
        assert reply.status == 403
        assert RUN not in reply.text
        assert "set-cookie" not in reply.headers


def test_the_page_without_access_names_the_command(server: UiServer) -> None:
    assert "auepora ui</code> printed" in server.request("GET", "/runs", headers={}).text
    assert "Ask for the address of the batch" in server.request("GET", "/label/0", headers={}).text


ACCEPTED = {
    "by name": {"host": "localhost:{port}"},
    "own origin": {"origin": "http://127.0.0.1:{port}"},
    "own origin by name": {"host": "localhost:{port}", "origin": "http://localhost:{port}"},
    "own form": {"origin": "null", "sec-fetch-site": "same-origin"},
    "own script": {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
    "link on another site": {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    "odd cookies of other servers": {"cookie": 'a={{"x": 1}}; b c; {cookie}'},
    "two cookies of the same name": {"cookie": "{cookie}; auepora_ui_{port}=wrong"},
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED)
def test_a_request_with_access_is_answered(server: UiServer, given: dict[str, str]) -> None:
    headers = {name: value.format(port=server.access.port, cookie=server.cookie) for name, value in given.items()}
    assert server.get("/runs", **headers).status == 200


def test_other_methods_are_not_used(server: UiServer) -> None:
    for method in ("OPTIONS", "PUT", "DELETE", "TRACE"):
        assert server.request(method, "/runs", headers={"cookie": server.cookie}).status == 405
        assert server.request(method, "/runs", headers={}).status == 403


def test_the_headers_of_a_page_alone(server: UiServer) -> None:
    for path in ("/runs", "/assets/theme.css", "/live/events"):
        with closing(HTTPConnection("127.0.0.1", server.access.port, timeout=10)) as connection:
            for _ in range(2):  # a stream without an end would block the connection
                connection.request("HEAD", path, headers={"cookie": server.cookie})
                with connection.getresponse() as reply:
                    assert (reply.status, reply.read()) == (200, b"")


def test_a_write_needs_the_csrf_token(server: UiServer) -> None:
    def post(fields: dict[str, str], **headers: str) -> int:
        return server.post("/nothing", fields, **headers).status

    assert post({}, **{"x-csrf-token": "wrong"}) == 403
    assert post({}, **{"x-csrf-token": ""}) == 403
    assert post({CSRF_FIELD: "wrong"}, **{"x-csrf-token": ""}) == 403
    assert post({CSRF_FIELD: server.access.csrf_token}, **{"x-csrf-token": ""}) == 404  # accepted: no such page
    assert post({}) == 404
    assert post({}, origin="null") == 403
    assert post({}, **{"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}) == 403
    assert post({"long": "x" * (MAX_BODY + 1)}) == 413


@pytest.mark.parametrize("path", ["/runs", "/", "/nothing", "/runs/unknown", "/assets/theme.css", "/no-access"])
def test_headers_of_every_response(server: UiServer, path: str) -> None:
    reply = server.request("GET", path, headers={}) if path == "/no-access" else server.get(path)
    headers = reply.headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert (headers["referrer-policy"], headers["x-content-type-options"]) == ("no-referrer", "nosniff")
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/assets") else "no-store")
    assert "server" not in headers


def test_an_asset_is_sent_again_only_if_it_changed(server: UiServer) -> None:
    first = server.get("/assets/theme.css")
    assert first.headers["content-type"].startswith("text/css")
    again = server.get("/assets/theme.css", **{"if-none-match": first.headers["etag"]})
    assert (again.status, again.text) == (304, "")


@pytest.mark.parametrize("name", ["..%2fserver.py", "%2e%2e/server.py", "../server.py", "none.js", "%00"])
def test_only_assets_are_served(server: UiServer, name: str) -> None:
    assert server.get(f"/assets/{name}").status == 404
