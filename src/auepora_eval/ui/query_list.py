"""The queries of one or two runs, with filters."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .workbench import render_template


def queries_page(request: Request) -> Response:
    """The page."""
    return render_template(request, "layout.html")


ROUTES: list[BaseRoute] = [Route("/queries", queries_page)]
