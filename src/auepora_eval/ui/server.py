"""The application with the routes of all pages and the assets, and the server on the loopback interface."""

from __future__ import annotations

import asyncio
import gc
import logging
import mimetypes
import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import chain
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from ..errors import AueporaError, BadValueError
from ..runtime.sockets import reuse_address
from . import (
    batch_page,
    compare_page,
    gold_page,
    groups_page,
    label_page,
    live_page,
    query_list,
    query_page,
    review_page,
    run_page,
    runs_page,
    sweep_page,
)
from .security import HOST, Access, SecurityMiddleware
from .workbench import Workbench, handle_error

PAGES = (
    runs_page,
    run_page,
    compare_page,
    query_list,
    groups_page,
    query_page,
    live_page,
    label_page,
    batch_page,
    gold_page,
    review_page,
    sweep_page,
)
ASSETS: list[str | tuple[str, str]] = [("auepora_eval.ui", "assets"), ("auepora_eval.render", "assets")]
"""The folders of assets, each with its package."""
GC_THRESHOLD = 50_000
"""The garbage collector looks at new objects when there are so many more of them."""
STOP_TIMEOUT_S = 0.8
"""The longest time from a signal to the end of the process."""


def create_app(workbench: Workbench, access: Access) -> ASGIApp:
    """The application: all pages over a workbench, for requests with access."""
    mimetypes.add_type("text/javascript", ".js")  # some systems have another type, with which browsers refuse scripts
    routes: list[BaseRoute] = [
        Route("/", lambda request: RedirectResponse("/runs", 307)),
        Mount("/assets", AssetFiles(packages=ASSETS)),
        *chain.from_iterable(page.ROUTES for page in PAGES),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={AueporaError: handle_error, HTTPException: handle_error, Exception: handle_error},
    )
    app.state.workbench, app.state.access = workbench, access
    app.state.live_feed, app.state.apply_task = live_page.LiveFeed(workbench), None
    return SecurityMiddleware(app, access)  # outside the application, so that its error pages get the headers, too


class AssetFiles(StaticFiles):
    """Scripts and style sheets. The browser keeps them and asks whether they have changed."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """A file, or the answer that it has not changed."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["cache-control"] = "no-cache"
        return response


def open_socket(port: int) -> socket.socket:
    """A socket that listens on the loopback interface; on a free port where ``port`` is 0."""
    # With the protocol named, asyncio sends small responses at once; otherwise each may wait 40 ms for an ACK.
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        reuse_address(opened)
        opened.bind((HOST, port))
        opened.listen()
    except OSError as error:
        opened.close()
        problem = f"port {port} cannot be used: {error.strerror or error}"
        raise BadValueError(f"{problem}; choose another with --port, or --port 0 for a free one") from error
    return opened


class WorkbenchServer(uvicorn.Server):
    """Serves a workbench on a listening socket. When it stops, event streams end with it."""

    def __init__(self, workbench: Workbench, listening: socket.socket) -> None:
        self.workbench, self.listening = workbench, listening
        self.access = Access(listening.getsockname()[1])
        super().__init__(
            uvicorn.Config(
                create_app(workbench, self.access),
                http="h11",
                ws="none",
                log_config=None,  # its own would close the handlers of other libraries
                log_level="warning",
                access_log=False,  # it would contain the token
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    def serve_forever(self) -> None:
        """Serve until a signal, or until ``should_exit`` is set."""
        with suppress(KeyboardInterrupt):  # uvicorn has stopped by then, and raises the signal again
            self.run(sockets=[self.listening])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal. A page that is still being made does not delay the end; the store stays whole."""
        super().handle_exit(sig, frame)
        last_resort = threading.Timer(STOP_TIMEOUT_S, os._exit, [0])
        last_resort.daemon = True
        last_resort.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, wait for the pages that are being made, and close all connections."""
        self.workbench.stopping.set()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it reports each request that is cut off
        asyncio.get_running_loop().call_later(STOP_TIMEOUT_S / 2, setattr, self, "force_exit", True)
        await super().shutdown(sockets)


def serve(workbench: Workbench, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve the workbench until Ctrl-C or SIGTERM. ``ready`` is called with the address to open."""
    with closing(open_socket(port)) as listening:
        server = WorkbenchServer(workbench, listening)
        runs_page.prepare(workbench)
        # A page over a large run makes millions of short-lived objects; with the defaults half of its time is spent on
        # looking for cycles among them.
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        ready(server.access.url)
        server.serve_forever()
