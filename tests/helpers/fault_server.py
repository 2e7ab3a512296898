"""A real HTTP server on 127.0.0.1 whose every reply a test decides."""

import json
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from helpers.requirements import need_program


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply(BaseHTTPRequestHandler):
    """Answers one request; a test's function is called with it and with what was asked."""

    protocol_version = "HTTP/1.1"
    server: "FaultServer"

    def do_POST(self) -> None:
        asked = Asked(
            self.command, self.path, dict(self.headers), self.rfile.read(int(self.headers.get("Content-Length", 0)))
        )
        self.server.asked.append(asked)
        self.server.answer(self, asked)

    do_GET = do_PUT = do_PATCH = do_POST  # noqa: N815

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def send(self, body: bytes | dict[str, Any] | list[Any], status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def raw(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def hang_up(self, *, reset: bool = False) -> None:
        """Close the connection; with ``reset``, as a crash of the machine would."""
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def stall(self) -> None:
        """Say nothing more until the test is over."""
        self.close_connection = True
        self.server.over.wait(30)

    def log_message(self, *args: Any) -> None:
        pass


class FaultServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True
    request_queue_size = 128

    def __init__(self, answer: Callable[[Reply, Asked], None], context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Reply)
        self.scheme = "http" if context is None else "https"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.answer = answer
        self.asked: list[Asked] = []
        self.connections = 0
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}/ask"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is what these tests are about."""


@contextmanager
def serving(answer: Callable[[Reply, Asked], None], context: ssl.SSLContext | None = None) -> Iterator[FaultServer]:
    """A server that is there within the block, encrypted where it is given a ``context``."""
    server = FaultServer(answer, context)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def make_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file; skips the test where there is no openssl."""
    program = need_program("openssl")
    key, certificate, both = (folder / name for name in ("key.pem", "certificate.pem", "both.pem"))
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([program, "req", "-x509", *curve, *names, *files], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both
