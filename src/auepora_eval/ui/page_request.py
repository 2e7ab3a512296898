"""Requests to pages: the workbench behind a request, its parameters and form fields read by type, and routes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import BadValueError
from ..labels.queue import LabelQueue
from ..queries.filters import SampleFilter
from ..store.records import RunRecord
from .workbench import Workbench, make_url

StrT = TypeVar("StrT", bound=str)


class Fields(QueryParams):
    """The parameters of an address or the fields of a form. ``BadValueError`` names one with a bad value.

    ``get`` returns the last value of a field that occurs twice.
    """

    def text(self, name: str, longest: int, *, is_required: bool = False) -> str:
        """A text with plain line breaks and without spaces around it; a bad request where it is too long."""
        text = self.get(name, "").replace("\r\n", "\n").strip()
        shortest = 1 if is_required else 0
        if not shortest <= len(text) <= longest:
            raise HTTPException(400, f"{name} must have {shortest} to {longest:,} characters, not {len(text):,}")
        return text

    def choice(self, name: str, choices: Collection[StrT], default: str = "") -> StrT:
        """One of some words."""
        text = self.get(name, default)
        for choice in choices:
            if choice == text:
                return choice
        listed = [choice for choice in choices if choice]
        raise BadValueError(f"{name} must be one of {', '.join(listed)}, not {text!r:.60}")

    def integer(self, name: str, default: str = "", *, lowest: int | None = None) -> int:
        """An integer."""
        text = self.get(name, default).strip()
        try:
            number = int(text)
        except ValueError as error:
            raise BadValueError(f"{name} must be an integer, not {text!r:.60}") from error
        if lowest is not None and number < lowest:
            raise BadValueError(f"{name} must be {lowest} or more, not {number}")
        return number

    def number(self, name: str) -> float | None:
        """A number; ``None`` for an empty text."""
        text = self.get(name, "").strip()
        try:
            return float(text) if text else None
        except ValueError as error:
            raise BadValueError(f"{name} must be a number, not {text!r:.60}") from error

    def sample_filter(self) -> SampleFilter:
        """The filter of queries: the fields ``q``, ``where`` and ``sort``."""
        where = [text for text in self.getlist("where") if text.strip()]
        return SampleFilter.parse(self.get("q", ""), where, self.get("sort", ""))

    def page(self) -> int:
        """The page of a list, from 1; 404 for a number of more than nine digits, which no list has."""
        text = self.get("page") or "1"
        if not (text.isascii() and text.isdigit() and text.strip("0")):
            raise BadValueError(f"page must be a number from 1, not {text!r:.60}")
        if len(text) > 9:
            raise HTTPException(404, "page: no list has so many pages")
        return int(text)


class PageRequest(Request):
    """A request to a page."""

    form_fields = Fields()
    """The fields of the form that was sent."""

    @cached_property
    def workbench(self) -> Workbench:
        """The workbench of the application; raises if its store was deleted."""
        found: Workbench = self.app.state.workbench
        found.check_store()
        return found

    @cached_property
    def parameters(self) -> Fields:
        """The parameters of the address."""
        return Fields(self.query_params)

    @cached_property
    def run(self) -> RunRecord:
        """The run that the path names."""
        return self.workbench.find(self.path_params["run_id"])

    @property
    def is_organiser(self) -> bool:
        """Whether the request has the session of the person who started the workbench."""
        return bool(self.scope["role"] == "organiser")

    def label_address(self, batch_id: str) -> str:
        """The address that signs browsers in for the items of a batch alone."""
        return make_url(f"{self.base_url}label/{batch_id}", token=self.app.state.access.label_token(batch_id))

    @property
    def queue(self) -> LabelQueue:
        """The queue of the batch that the path names."""
        return self.workbench.queue(self.path_params["batch_id"])


def page_route(path: str, page: Callable[[PageRequest], Response], *, method: str = "GET") -> Route:
    """A route to a page, which is made in a worker thread. Of ``POST`` requests the form is read first."""

    async def endpoint(request: Request) -> Response:
        received = PageRequest(request.scope, request.receive)
        if method == "POST":
            body = await received.body()
            received.form_fields = Fields(body.decode("utf-8", "replace"))
        return await run_in_threadpool(page, received)

    return Route(path, endpoint, methods=[method])
