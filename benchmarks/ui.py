"""The workbench on a large store: time of each page and fragment, and memory of the server.

    python -m benchmarks.ui [--store runs.sqlite] [--quick] [--only labels]

Prints Markdown. The server is a process of its own, and the client asks for one page after the other. Without
``--store`` the store of ``benchmarks.ui_data`` is made first: 500 runs, two of them with 100,000 queries. "First" is
the first request after the start of the server, "again" the median of the next five, each with the processor time of
the server; of several addresses, the slowest. Labels are given in a batch of 10,000 items that has as many labels of
another annotator; their folder is a temporary one, on the disk of the store if ``--store`` is given.
"""

import argparse
import html
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import cast
from urllib.parse import urlencode, urlsplit

from auepora_eval.io.labels import Label, write_labels
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.labels.draws import read_draws
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from auepora_eval.ui.query_list import SIZES
from auepora_eval.ui.run_tabs import TABS

from .ui_data import LARGE_NAMES, write_store

REPEATS = 5
WORDS = ("w", "wh", "wha", "what", "what is")
"""What a user types, keystroke by keystroke."""
TARGETS = {"runs": 0.3, "run": 1.0, "compare": 1.0, "keystroke": 0.1, "query": 1.0, "queue": 0.5, "label": 0.05}
TARGETS["reading"] = 0.3
ITEMS, LABELS = 10_000, 100
"""Items of a batch, and the number of labels that are given to it."""
MAX_MEMORY = 400
_FRAGMENT = re.compile(r'data-fragment="([^"]*)"')


class Server:
    """``auepora ui`` in a process of its own, and a client with access to it."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        parts = urlsplit(url)
        self.connection = HTTPConnection(parts.netloc, timeout=600)
        self.connection.request("GET", f"{parts.path}?{parts.query}")
        response = self.connection.getresponse()
        response.read()
        self.cookies: dict[str, str] = {}
        self._keep_cookies(response)

    def get(self, path: str) -> tuple[str, float, float]:
        """The page, the seconds it took, and the processor time of the server."""
        return self.request("GET", path)

    def post(self, path: str, **fields: object) -> tuple[str, float, float]:
        """The same for a form."""
        return self.request("POST", path, urlencode({**fields, "csrf_token": self.csrf_token}))

    @cached_property
    def csrf_token(self) -> str:
        """The token of forms."""
        found = re.search(r'name="csrf-token" content="([^"]+)"', self.get("/plans")[0])
        assert found is not None
        return found[1]

    def request(self, method: str, path: str, body: str | None = None) -> tuple[str, float, float]:
        """The response, the seconds it took, and the processor time of the server."""
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if body:
            headers |= {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        before, started = self.cpu, time.perf_counter()
        self.connection.request(method, path, body, headers=headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        seconds = time.perf_counter() - started
        self._keep_cookies(response)
        self.connection.close()  # the server closes one that is idle for a few seconds
        if response.status != 200:
            raise SystemExit(f"{path}: status {response.status}\n{text[:2000]}")
        return text, seconds, self.cpu - before

    def _keep_cookies(self, response: HTTPResponse) -> None:
        """Keep the cookies as a browser does: the session, and the secret that claims the name of an annotator."""
        for text in response.headers.get_all("set-cookie", ()):
            name, _, value = text.partition(";")[0].partition("=")
            self.cookies[name] = value

    @property
    def cpu(self) -> float:
        """The seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name: str) -> float:
        """Megabytes: ``VmRSS`` now, ``VmHWM`` at most so far."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def start_server(store: Path, *arguments: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "auepora_eval", "ui", "--store", str(store), "--port", "0", "--no-open", "--json"]
    command += arguments
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            text = ""
            while "}" not in text and (line := process.stdout.readline()):
                text += line
            yield Server(process, json.loads(text)["url"])
        finally:
            process.terminate()


def measure(server: Server, name: str, paths: Sequence[str], kind: str = "") -> str:
    """Print a row of the table, the slowest of these paths; return the last page."""
    columns: list[list[float]] = []
    page = ""
    for path in paths:
        page, wall, cpu = server.get(path)
        later = [server.get(path)[1:] for _ in range(REPEATS)]
        columns.append([wall, cpu, *_middle(later)])
    print_row(server, name, [max(column) for column in zip(*columns, strict=True)], kind)
    return page


def _middle(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The median of the seconds, and the mean of the processor time, which is counted in hundredths of a second."""
    return statistics.median(one for one, _ in times), statistics.mean(one for _, one in times)


def print_heads() -> None:
    """Print the head of the table."""
    heads = ["page", "first, ms", "processor", "again, ms", "processor", "target, ms", "memory, MB"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")


def print_row(server: Server, name: str, seconds: Sequence[float], kind: str = "") -> None:
    """Print a row of the table."""
    target = TARGETS.get(kind)
    cells = [
        name,
        *(f"{one * 1000:,.0f}" for one in seconds),
        "" if target is None else f"{target * 1000:,.0f}",
        f"{server.memory('VmRSS'):,.0f}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def measure_page(server: Server, name: str, path: str, kind: str) -> None:
    """Measure a page and the fragments that it loads, and those in them."""
    seen = set()
    pending = [(name, measure(server, name, [path], kind))]
    while pending:
        owner, page = pending.pop()
        for address in map(html.unescape, _FRAGMENT.findall(page)):
            if address not in seen:
                seen.add(address)
                label = f"{owner}: {urlsplit(address).path.rpartition('/')[2]}"
                pending.append((owner, measure(server, label, [address])))


def measure_all(store: Path, runs: Sequence[str], sample: str) -> None:
    """Print the table."""
    one, both = {"run": runs[0]}, {"run": list(runs)}
    with start_server(store) as server:
        print_heads()
        measure_page(server, "runs", "/runs", "runs")
        measure(
            server, "runs: search", [f"/runs?{urlencode({'q': 'ager'[:n], 'fragment': 'list'})}" for n in (1, 2, 3)]
        )
        measure(server, "runs: by failures", ["/runs?sort=-failures"])
        measure_page(server, "run", f"/runs/{runs[0]}", "run")
        for tab in ("head", *TABS):
            measure(server, f"run: {tab}", [f"/runs/{runs[0]}/sections/{tab}?fragment=1"])
        for label, chosen in (("queries of a run", one), ("queries of two runs", both)):
            measure(server, label, [_queries(chosen)])
            measure(server, f"{label}: search", [_queries(chosen, q=word) for word in WORDS], "keystroke")
            conditions = ["recall@5<0.5", "token_f1=scored", "answer=refused", "rank<=5", "label.topic=billing"]
            measure(server, f"{label}: conditions", [_queries(chosen, where=one) for one in conditions], "keystroke")
            waiting = _queries(chosen, q=WORDS[0], where="answer=refused", wait="1")
            measure(server, f"{label}: search and condition with all answers", [waiting])
            measure(server, f"{label}: any page, 12 to 200 rows", _reading_pages(store, chosen), "reading")
            measure(server, f"{label}: order", [_queries(chosen, sort=key) for key in ("token_f1", "-token_f1")])
        measure_page(server, "other run", f"/runs/{runs[1]}", "run")
        measure_page(server, "compare", f"/compare?{urlencode(both, doseq=True)}", "compare")
        measure_page(server, "query", f"/query?{urlencode({**both, 'id': sample}, doseq=True)}", "query")
        peak = server.memory("VmHWM")
    print(f"\nPeak memory of the server: {peak:,.0f} MB (target {MAX_MEMORY} MB)")


def measure_labels(path: Path, folder: Path, run: str) -> None:
    """Print the rows of a batch: the queue is opened, and labels are saved."""
    with RunStore.open(path, create=False) as store:
        n = min(ITEMS, store.get(run).num_samples // 2)
        options = BatchOptions("calibrate", (run,), metric="containment", n=n, annotators=2)
        batch = create_batch(folder, plan_batch(store, options))
    selections = read_draws(batch.journal)[run].selections()
    write_labels(
        batch.journal,
        [
            Label(one, "right", "bob", run, "containment", draw=how.draw, probability=how.probability)
            for one, how in selections.items()
        ],
    )
    with start_server(path, "--labels", str(folder)) as server:
        print_heads()
        item_page, times = f"/label/{batch.id}/item?as=ann", []
        measure(server, f"label: queue of {n:,} items", [item_page], "queue")
        for item in range(1, LABELS + 1):
            server.get(item_page)
            fields = {"as": "ann", "item": item, "value": "right", "submission": item}
            times.append(server.post(f"/label/{batch.id}/label", **fields)[1:])
        print_row(server, "label: saved", [*times[0], *_middle(times)], "label")
        print(f"\nSlowest of {LABELS} labels: {max(times)[0] * 1000:,.0f} ms")


def _reading_pages(store: Path, runs: Mapping[str, object]) -> list[str]:
    """Pages from the beginning, the middle and the end of the list, of all sizes."""
    with RunStore.open(store, create=False) as opened:
        named = runs["run"]
        ids = opened.sample_ids(named if isinstance(named, str) else cast(list[str], named)[0])
    places = (len(ids) // 2, len(ids) - 250)
    return [_queries(runs, after=ids[place], size=str(size)) for place in places for size in SIZES]


def _queries(runs: Mapping[str, object], **parameters: str) -> str:
    part = "results" if parameters else "1"
    return f"/queries?{urlencode({**runs, **parameters, 'fragment': part}, doseq=True)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store of `python -m benchmarks.ui_data`; default: make one")
    parser.add_argument("--quick", action="store_true", help="a small store, to see that it works")
    parser.add_argument("--only", choices=("pages", "labels"), help="measure these only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.store and options.store.parent) as folder:
        labels = Path(folder) / "labels"
        path = options.store or Path(folder) / "runs.sqlite"
        if options.store is None:
            write_store(path, queries=1_000 if options.quick else 100_000, runs=20 if options.quick else 500)
        with RunStore.open(path, create=False) as store:
            runs = [store.find(name).run_id for name in LARGE_NAMES]
            sample = store.sample_ids(runs[0])[7]
        if options.only != "labels":
            measure_all(path, runs, sample)
        if options.only != "pages":
            measure_labels(path, labels, runs[0])


if __name__ == "__main__":
    main()
