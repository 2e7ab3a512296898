"""The names that annotators have claimed: the organiser releases them."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from ..annotate.claims import release_name
from ..annotate.names import MAX_NAME, check_annotator
from .batch_page import batch_url
from .page_request import PageRequest, page_route


def release(request: PageRequest) -> Response:
    """Let another browser use a name of a batch."""
    batch = request.queue.batch
    name = request.form_fields.text("name", MAX_NAME, is_required=True)
    release_name(batch.journal, check_annotator(name))
    return RedirectResponse(batch_url(batch), 303)


ROUTES = [page_route("/batches/{batch_id}/release", release, method="POST")]
