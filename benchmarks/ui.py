"""The workbench on a large store: time of each page and fragment, and memory of the server.

    python -m benchmarks.ui [--store runs.sqlite] [--quick]

Prints Markdown. The server is a process of its own, and the client asks for one page after the other. Without
``--store`` the store of ``benchmarks.ui_data`` is made first: 500 runs, two of them with 100,000 queries. "First" is
the first request after the start of the server, "again" the median of the next five, each with the processor time of
the server; of several addresses, the slowest.
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
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from auepora_eval.store.runs import RunStore

from .ui_data import LARGE_NAMES, write_store

REPEATS = 5
WORDS = ("w", "wh", "wha", "what", "what is")
"""What a user types, keystroke by keystroke."""
TARGETS = {"runs": 0.3, "run": 1.0, "compare": 1.0, "keystroke": 0.1, "query": 1.0}
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
        self.headers = {"cookie": str(response.getheader("set-cookie")).partition(";")[0]}

    def get(self, path: str) -> tuple[str, float, float]:
        """The page, the seconds it took, and the processor time of the server."""
        before, started = self.cpu, time.perf_counter()
        self.connection.request("GET", path, headers=self.headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        seconds = time.perf_counter() - started
        if response.status != 200:
            raise SystemExit(f"{path}: status {response.status}\n{text[:2000]}")
        return text, seconds, self.cpu - before

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
def start_server(store: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "auepora_eval", "ui", "--store", str(store), "--port", "0", "--no-open", "--json"]
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
        columns.append(
            [wall, cpu, statistics.median(one for one, _ in later), statistics.mean(one for _, one in later)]
        )
    target = TARGETS.get(kind)
    cells = [
        name,
        *(f"{max(column) * 1000:,.0f}" for column in zip(*columns, strict=True)),
        "" if target is None else f"{target * 1000:,.0f}",
        f"{server.memory('VmRSS'):,.0f}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    return page


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
        heads = ["page", "first, ms", "processor", "again, ms", "processor", "target, ms", "memory, MB"]
        print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        measure_page(server, "runs", "/runs", "runs")
        measure(
            server, "runs: search", [f"/runs?{urlencode({'q': 'ager'[:n], 'fragment': 'list'})}" for n in (1, 2, 3)]
        )
        measure(server, "runs: by failures", ["/runs?sort=-failures"])
        measure_page(server, "run", f"/runs/{runs[0]}", "run")
        for label, chosen in (("queries of a run", one), ("queries of two runs", both)):
            measure(server, label, [_queries(chosen)])
            measure(server, f"{label}: search", [_queries(chosen, q=word) for word in WORDS], "keystroke")
            conditions = ["recall@5<0.5", "token_f1=scored", "answer=refused", "rank<=5", "label.topic=billing"]
            measure(server, f"{label}: conditions", [_queries(chosen, where=one) for one in conditions], "keystroke")
            waiting = _queries(chosen, q=WORDS[0], where="answer=refused", wait="1")
            measure(server, f"{label}: search and condition with all answers", [waiting])
            measure(server, f"{label}: order", [_queries(chosen, sort=key) for key in ("token_f1", "-token_f1")])
        measure_page(server, "other run", f"/runs/{runs[1]}", "run")
        measure_page(server, "compare", f"/compare?{urlencode(both, doseq=True)}", "compare")
        measure_page(server, "query", f"/query?{urlencode({**both, 'id': sample}, doseq=True)}", "query")
        peak = server.memory("VmHWM")
    print(f"\nPeak memory of the server: {peak:,.0f} MB (target {MAX_MEMORY} MB)")


def _queries(runs: Mapping[str, object], **parameters: str) -> str:
    part = "results" if parameters else "1"
    return f"/queries?{urlencode({**runs, **parameters, 'fragment': part}, doseq=True)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store of `python -m benchmarks.ui_data`; default: make one")
    parser.add_argument("--quick", action="store_true", help="a small store, to see that it works")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder) / "runs.sqlite"
        if options.store is None:
            write_store(path, queries=1_000 if options.quick else 100_000, runs=20 if options.quick else 500)
        with RunStore.open(path, create=False) as store:
            runs = [store.find(name).run_id for name in LARGE_NAMES]
            sample = store.sample_ids(runs[0])[7]
        measure_all(path, runs, sample)


if __name__ == "__main__":
    main()
