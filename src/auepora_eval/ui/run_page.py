"""One run."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .workbench import render_template


def run_page(request: Request) -> Response:
    """The page."""
    return render_template(request, "layout.html")


ROUTES: list[BaseRoute] = [Route("/runs/{run_id}", run_page)]
