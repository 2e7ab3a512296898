"""Runs in progress, and plans."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .workbench import render_template


def live_page(request: Request) -> Response:
    """The page."""
    return render_template(request, "layout.html")


ROUTES: list[BaseRoute] = [Route("/live", live_page)]
