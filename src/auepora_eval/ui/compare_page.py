"""Two or more runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .workbench import render_template


def compare_page(request: Request) -> Response:
    """The page."""
    return render_template(request, "layout.html")


ROUTES: list[BaseRoute] = [Route("/compare", compare_page)]
