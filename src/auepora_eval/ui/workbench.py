"""``Workbench``: the store behind the pages with a bounded cache; templates, fragments and error pages."""

from __future__ import annotations

import itertools
import json
import logging
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import numpy as np
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ..compare.stores import DecisionRegister
from ..core.metrics_base import sample_clusters
from ..core.reduce import Clusters
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import (
    AueporaError,
    ConflictError,
    DataFileError,
    MissingDependencyError,
    StoreError,
    UnknownBatchError,
    UnknownCorrectionError,
    UnknownRunError,
)
from ..features.matching import has_spans
from ..io.grades import CorrectionLog
from ..labels.batch_plans import batch_path, find_batch, labels_folder
from ..labels.queue import LabelQueue
from ..render.blocks import Block
from ..render.html import ChartRenderer, UncutText, format_time, make_environment, pluralize, value_text
from ..report.run_sections import StoredRun
from ..runtime.processes import return_free_memory
from ..store.records import RunRecord
from ..store.runs import CachedStore, RunStore, lazy_samples, run_version, sample_at, samples_contain
from .numbers import time_ago, time_of
from .security import batch_of

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T")

logger = logging.getLogger(__name__)

CACHE_BYTES = 176 * 2**20
"""The default limit of the cache, all runs together: the results and query columns of two runs of 100,000 queries."""
LONG_BUILD_S = 0.5
"""After a longer computation free memory is returned: worker threads would keep what each of them freed."""
KEPT_BYTES = 50
"""About what is kept of such a pass per query."""
WORKING_BYTES = 600
"""About what a pass over all outputs of a run, or a comparison, takes per query and run while it lasts."""
LARGE_WORK = 2**24
"""Before a computation that takes more bytes, those of dropped values are returned."""
MAX_CACHED_SAMPLES = 20_000
SAMPLE_BYTES = 1000
"""About what a sample without document texts takes."""

# --- the store with a bounded cache ----------------------------------------------------------------------------------


class Workbench:
    """The store of the pages, with a cache that is bounded by bytes. All methods may be called from any thread."""

    def __init__(
        self,
        store: RunStore,
        *,
        plans: Path | None = None,
        labels: Path | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """``plans`` is the folder whose plans are shown, ``labels`` the one of labels; default: ``labels_folder``."""
        self.store = store
        self.label = store.label
        """The path or URL of the store, without a password."""
        self.labels = labels_folder(store, labels)
        self._queues: dict[str, LabelQueue] = {}
        self._queues_lock = threading.Lock()
        self.plans = Path.cwd() if plans is None else plans
        self.stopping = threading.Event()
        """Set when the server stops: event streams end."""
        self._cache = _ByteCache(cache_bytes)
        self._file = _file_identity(store.file)

    def check_store(self) -> None:
        """Raise if the file of the store was deleted or replaced: what is read from it would be of the old file."""
        if _file_identity(self.store.file) != self._file:
            raise StoreError(self.label, "was deleted or replaced while it was open; start `auepora ui` again")

    def find(self, text: str) -> RunRecord:
        """The run with that id, or prefix of an id; ``UnknownRunError`` where there is none."""
        return self.store.get(text)

    def queue(self, batch_id: str) -> LabelQueue:
        """The queue of the batch with that id, opened once; ``UnknownBatchError`` where there is none."""
        with self._queues_lock:
            found = self._queues.get(batch_id)
            if found is None or batch_path(self.labels, batch_id) is None:
                self._queues.pop(batch_id, None)
                found = self._queues[batch_id] = LabelQueue(find_batch(self.labels, batch_id), self.store)
            return found

    @cached_property
    def corrections(self) -> CorrectionLog:
        """The proposed corrections of gold in the folder of labels."""
        return CorrectionLog(self.labels)

    def run(self, record: RunRecord, letter: str = "") -> StoredRun:
        """The stored data of a run for report sections, read through the cache."""
        return _CachedRun(self, record, letter)

    def version(self, record: RunRecord) -> str:
        """A text that changes with the outputs, results, status and tags of a run; a part of cache keys."""
        return run_version(self.store, record)

    def samples_contain(self, record: RunRecord, text: str) -> bool:
        """Whether this text is in the JSON of a sample of a run."""
        key = (record.fingerprint, "contains", text)
        return self.cached(key, lambda: samples_contain(self.store, record.run_id, text), size=100)

    def cached(
        self, key: tuple[Any, ...], build: Callable[[], T], *, size: int | Callable[[T], int], working: int = 0
    ) -> T:
        """The value of a key, built once: other threads wait for it. ``size`` is its size in bytes.

        A key starts with the run id and contains the version of the run. Where the limit is exceeded, also by the
        ``working`` bytes that building takes meanwhile, values are dropped: those first that were built fast and not
        used lately. A value above the limit is returned and not kept.
        """
        found: T = self._cache.get(key, build, size, working)
        return found


def _file_identity(path: Path | None) -> tuple[int, int] | None:
    """Device and number of a file; ``None`` where there is none."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


@dataclass(slots=True)
class _CachedValue:
    value: Any
    size: int
    cost: float
    """How long it took to build, per byte; 0 for a short computation."""
    priority: float


class _ByteCache:
    """Values by key, bounded by their bytes. Those that were cheap to build and not used lately are dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._values: dict[tuple[Any, ...], _CachedValue] = {}
        self._builds: dict[tuple[Any, ...], threading.Lock] = {}
        self._lock = threading.Lock()
        self._floor = 0.0
        """The priority of the value that was dropped last: later uses count more, so that no value stays for ever."""

    def get(
        self, key: tuple[Any, ...], build: Callable[[], Any], size: int | Callable[[Any], int], working: int
    ) -> Any:
        """The value of a key, built by one thread at a time."""
        with self._lock:
            if key in self._values:
                return self._use(key, self._values.pop(key))
            building = self._builds.setdefault(key, threading.Lock())
        with building:
            with self._lock:
                if key in self._values:
                    return self._values[key].value
                self._shrink(self.limit - working)
            if working > LARGE_WORK:
                return_free_memory()
            start = time.monotonic()
            try:
                value = build()
            finally:
                with self._lock:
                    self._builds.pop(key, None)
            seconds = time.monotonic() - start
            taken = size(value) if callable(size) else size
            with self._lock:
                if taken <= self.limit and key not in self._values:
                    cost = seconds // LONG_BUILD_S / max(taken, 1)
                    self._use(key, _CachedValue(value, taken, cost, priority=0.0))
                    self.used += taken
                self._shrink(self.limit)
            if seconds > LONG_BUILD_S:
                return_free_memory()
            return value

    def _use(self, key: tuple[Any, ...], cached: _CachedValue) -> Any:
        """Note the use of a value; of equal priorities the one that was used last is last."""
        cached.priority = self._floor + cached.cost
        self._values[key] = cached
        return cached.value

    def _shrink(self, limit: int) -> None:
        """Drop values until no more bytes are used."""
        while self.used > max(limit, 0):
            key = min(self._values, key=lambda key: self._values[key].priority)
            dropped = self._values.pop(key)
            self._floor = dropped.priority
            self.used -= dropped.size


class _WorkbenchStore(CachedStore):
    """A store whose cached values are in the cache of a workbench, for one version of a run."""

    records_decisions = False  # a page is a GET request: its decisions are recorded by a POST

    def __init__(self, workbench: Workbench, record: RunRecord) -> None:
        super().__init__(workbench.store)
        self._workbench, self._record = workbench, record

    @cached_property
    def key(self) -> tuple[str, str]:
        """The start of the cache keys of the run."""
        return self._record.run_id, self._workbench.version(self._record)

    def samples(self, run_id: str, *, texts: bool = True) -> list[EvaluationSample]:
        """As in ``RunStore``."""
        if texts or run_id != self._record.run_id:
            return super().samples(run_id, texts=texts)
        read = super(CachedStore, self).samples
        key = (self._record.fingerprint, "samples")
        return self._workbench.cached(
            key, lambda: read(run_id, texts=False), size=self._record.num_samples * SAMPLE_BYTES
        )

    def results(self, run_id: str, *, every_signature: bool = False) -> Results:
        """As in ``RunStore``."""
        if every_signature or run_id != self._record.run_id:
            return super().results(run_id, every_signature=every_signature)
        read = super(CachedStore, self).results
        return self._workbench.cached((*self.key, "results"), lambda: read(run_id), size=_results_size)


class _CachedRun(StoredRun):
    """The stored data of a run; what is read from all outputs is cached too."""

    def __init__(self, workbench: Workbench, record: RunRecord, letter: str) -> None:
        store = _WorkbenchStore(workbench, record)
        super().__init__(store, record, letter)
        self._workbench, self._cached_store = workbench, store

    @cached_property
    def samples(self) -> Sequence[EvaluationSample]:
        """Its samples; those of a large run are read again on each iteration."""
        if self.record.num_samples > MAX_CACHED_SAMPLES:
            return lazy_samples(self.store, self.record.run_id, texts=False)
        return self.store.samples(self.record.run_id, texts=False)

    @cached_property
    def clusters(self) -> Clusters | None:
        """As in ``StoredRun``; the samples are decoded only if one may belong to a cluster."""
        is_clustered = any(
            self._workbench.samples_contain(self.record, f'"{name}"') for name in ("cluster_id", "variant_of")
        )
        return sample_clusters(self.samples) if is_clustered else None

    @cached_property
    def has_spans(self) -> bool:
        """As in ``StoredRun``; the samples are decoded only if one may have a span."""
        return self._workbench.samples_contain(self.record, '"span"') and any(map(has_spans, self.samples))

    def keep(self, name: str, read: Callable[[], T]) -> T:
        """As in ``StoredRun``."""
        size, working = (bytes_each * self.record.num_samples for bytes_each in (KEPT_BYTES, WORKING_BYTES))
        return self._workbench.cached((*self._cached_store.key, name), read, size=size + 10_000, working=working)


def _results_size(results: Results) -> int:
    """About the bytes of results, mostly their scores and the sample ids."""
    columns = sum(_scores_size(result.scores) for result in results if isinstance(result.scores, Scores))
    return columns + 100 * len(results.sample_ids) + 10_000


def _scores_size(scores: Scores) -> int:
    own = scores.values.nbytes + scores.status.nbytes + scores.reason_codes.nbytes
    own += 0 if scores.stats is None else scores.stats.nbytes
    keys = scores.keys or ()
    own += 8 * len(keys) + 200 * len({id(key) for key in keys})  # most keys are a few words that all samples share
    return own + sum(map(_scores_size, scores.repeats or ()))


# --- the samples of a dataset -----------------------------------------------------------------------------------------


def find_position(workbench: Workbench, record: RunRecord, sample_id: str) -> int | None:
    """The position of a sample in the dataset of a run; ``None`` where it is not in it."""
    hashes = workbench.cached(
        (record.fingerprint, "id hashes"),
        lambda: np.array([hash(sample_id) for sample_id in workbench.store.sample_ids(record.run_id)], np.int64),
        size=lambda found: found.nbytes,
    )
    places = np.flatnonzero(hashes == hash(sample_id)).tolist()
    return next((place for place in places if sample_id_at(workbench, record, place) == sample_id), None)


def sample_id_at(workbench: Workbench, record: RunRecord, position: int) -> str:
    """The id of the sample at a position of the dataset of a run."""
    return sample_at(workbench.store, record, position, texts=False).sample_id


def stored_output(store: RunStore, record: RunRecord, position: int, *, repeat: int = 0) -> SystemOutputs | None:
    """What a run returned for the sample at a position; ``None`` where nothing is stored."""
    return next((row.output for row in store.outputs(record.run_id, repeat=repeat, position=position)), None)


# --- templates: pages, fragments and report blocks -------------------------------------------------------------------

_PARTS = itertools.count(1)
"""Numbers the parts of pages, so that the ids of their charts differ."""


def is_blind(request: Request) -> bool:
    """Whether the page is for annotators: it names no run, file or store, and links to no page that does."""
    return bool(batch_of(request.url.path)) or request.url.path.startswith("/assets/")


def make_url(path: str, /, **parameters: Any) -> UncutText:
    """An address with query parameters: a list repeats its parameter, ``None`` leaves it out.

    >>> make_url("/queries", run=["a", "b"], where="recall@5<0.5", page=None)
    '/queries?run=a&run=b&where=recall%405%3C0.5'
    """
    pairs: list[tuple[str, Any]] = []
    for name, value in parameters.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, text) for text in values if text is not None]
    query = urlencode(pairs, errors="replace")
    return UncutText(f"{path}?{query}" if query else path)


def run_url(record: RunRecord, *parts: str) -> UncutText:
    """The address of a run, or of a part of its page. An id may contain any character."""
    return UncutText("/".join(["/runs", quote(record.run_id, safe="", errors="replace"), *parts]))


@cache
def _environment() -> Environment:
    environment = make_environment("auepora_eval.ui", "auepora_eval.render")
    environment.globals.update(url=make_url, run_url=run_url, pluralize=pluralize, value_text=value_text)
    environment.filters |= {"prose": _prose, "time": format_time, "time_of": time_of, "ago": time_ago}
    return environment


def _prose(text: str, *longest: int) -> Any:
    """A sentence of a report for a page."""
    return _environment().filters["ticked"](without_options(text), *longest)


def load_templates(*names: str) -> None:
    """Compile templates before a page needs them."""
    for name in names:
        _environment().get_template(name)


def render_template(request: Request, name: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page, or a part of one that ``shell.js`` inserts, from a template: every text is escaped.

    Templates that extend ``parent`` are a page, or with the parameter ``fragment`` a part of one.
    """
    common = {
        "csrf_token": request.app.state.access.csrf_token_for(request.scope["role"], request.url.path),
        "store_label": "" if is_blind(request) else request.app.state.workbench.label,
        "is_blind": is_blind(request),
        "store_option": "" if is_blind(request) else f" --store {shlex.quote(request.app.state.workbench.label)}",
        "parent": "fragment.html" if request.query_params.get("fragment") else "layout.html",
        "path": request.url.path,
        "drawn": ChartRenderer(f"{next(_PARTS)}-"),
    }
    html = _environment().get_template(name).render(common | context)
    return HTMLResponse(html.encode("utf-8", "replace"), status)  # a lone surrogate becomes a question mark


def render_blocks(blocks: Iterable[Block]) -> Markup:
    """Report blocks as HTML, as in the report."""
    drawn = ChartRenderer(f"{next(_PARTS)}-")
    html = _environment().get_template("block_list.html").render(listed=list(blocks), drawn=drawn)
    return Markup(html)  # noqa: S704 -- our own template, which escapes all texts


# --- errors as pages -------------------------------------------------------------------------------------------------

TITLES = {
    400: "This address cannot be shown",
    403: "No access",
    404: "Not found",
    405: "Not possible here",
    409: "Not saved",
    413: "Too large",
    500: "Something went wrong",
    501: "A package is missing",
    503: "Not possible at present",
}
ERROR_STATUSES: Mapping[type[AueporaError], int] = {
    UnknownRunError: 404,
    UnknownBatchError: 404,
    UnknownCorrectionError: 404,
    ConflictError: 409,
    StoreError: 500,
    DataFileError: 503,  # it can be repaired: a second try may work
    MissingDependencyError: 501,
}
BLIND_MESSAGES = {
    400: "This cannot be shown or saved.",
    404: "What this item shows is no longer stored. Labels that were saved stay.",
    501: "A package is missing.",
    503: "Labels cannot be read or saved at present; those that were saved stay.",
}
"""Messages to annotators in place of those that name runs and files."""
PLAIN_MESSAGES = {
    404: "There is no page at this address.",
    405: "This address cannot be used in this way.",
}


def error_response(request: Request, status: int, message: str) -> Response:
    """An error as a page; for a script as a short fragment, or as JSON where it accepts that."""
    if request.headers.get("accept", "").startswith("application/json"):
        body = json.dumps({"error": message})
        return Response(body, status, media_type="application/json")
    is_page = request.headers.get("sec-fetch-dest", "document") in ("document", "iframe")
    template = "error.html" if is_page else "error_fragment.html"
    return render_template(request, template, status=status, title=TITLES.get(status, TITLES[500]), message=message)


def error_status(error: AueporaError) -> int:
    """The status code of an error; 400 for one that is not in ``ERROR_STATUSES``."""
    if isinstance(error, StoreError) and error.is_locked:
        return 503
    return next((status for kind, status in ERROR_STATUSES.items() if isinstance(error, kind)), 400)


def recorded_response(register: DecisionRegister | None) -> Response:
    """Whether a decision that a page shows is recorded; a message where it is not."""
    if register is not None and not register.is_recorded:
        return JSONResponse({"recorded": False, "message": "This decision is not recorded: the store is read-only."})
    return JSONResponse({"recorded": register is not None})


_OPTION_NOTE = re.compile(r" \((?:-\w|--[a-z-]+|[a-z_]+=[^()]*)\)")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")


def page_message(error: AueporaError) -> str:
    """An error in words for a page."""
    return without_options(str(error))


def without_options(text: str) -> str:
    """A text for a page, which has fields: options are named without dashes, commands stay as they are."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        parts[place] = _OPTION.sub(r"\1", _OPTION_NOTE.sub("", parts[place]))
    return "`".join(parts)


def describe_error(request: Request, error: AueporaError | HTTPException) -> tuple[int, str]:
    """The status and the message of an error. Annotators get a message that names no run and no file."""
    if isinstance(error, HTTPException):
        plain = error.detail == HTTPStatus(error.status_code).phrase  # raised by the router
        message = PLAIN_MESSAGES.get(error.status_code, "") if plain else ""
        return error.status_code, message or str(error.detail)
    status = error_status(error)
    if not is_blind(request) or isinstance(error, ConflictError | UnknownBatchError):
        return status, page_message(error)
    logger.warning("%s", error.__cause__ or error)  # queues replace errors by such as name no file
    status = 503 if isinstance(error, StoreError) else status
    return status, f"{BLIND_MESSAGES[status]} The terminal of `auepora ui` has the reason."


def handle_error(request: Request, error: Exception) -> Response:
    """The response to an exception of a page."""
    if isinstance(error, AueporaError | HTTPException):
        response = error_response(request, *describe_error(request, error))
        response.headers.update((error.headers if isinstance(error, HTTPException) else None) or {})
        return response
    message = "The page could not be made because of an error in the program. The terminal shows the details."
    return error_response(request, 500, message)
