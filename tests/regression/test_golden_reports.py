"""Reports, exports and charts of stored runs, as recorded.

Numbers, keys and structure are in JSON files and ``*_structure.txt``; what is only wording is in ``*_text.txt`` and in
the Markdown files.
"""

import base64
import hashlib
import json
import re
import shutil
import sqlite3
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet
import pytest

from auepora_eval import RunStore, __version__
from auepora_eval.cli.main import main
from auepora_eval.compare import compare_runs
from auepora_eval.core.results import results_to_markdown
from auepora_eval.report.stored_plots import plot_runs
from helpers.golden import check_golden, check_golden_text
from helpers.requirements import need
from tools.metric_pages import reference_pages

Auepora = Callable[..., tuple[int, str, str]]

NAMES = ("baseline", "better", "bad")
METRICS = ["recall@3", "token_f1", "mean_latency[end_to_end]", "failure_attribution@3"]


def samples() -> Iterator[dict[str, Any]]:
    """Eight questions in two languages; the texts hold what HTML and Markdown must escape."""
    for number in range(8):
        yield {
            "sample_id": f"q{number}",
            "query": f"What is <b>{number}</b> | *really*?" if number == 3 else f"What is {number}?",
            "relevant_docs": [{"doc_id": f"d{number}", "text": f"Number {number} is & stays {number}."}],
            "reference_answer": {"text": f"It is {number}"},
            "labels": {"lang": "en" if number % 2 else "de"},
        }


def outputs(run: str) -> Iterator[dict[str, Any]]:
    """What each of the runs returned: hits at different ranks, refusals, and one failure."""
    for number in range(8):
        if run == "better" and number == 6:
            yield {"sample_id": "q6", "error": "timeout: no answer after 5 s"}
            continue
        ids = [f"d{(number + place) % 10}" for place in (1, 2, 3)]
        rank = {"baseline": number % 4, "better": 0 if number < 5 else 2, "bad": 3}[run]
        if rank < 3:
            ids[rank] = f"d{number}"
        answer = f"It is {number}" if number % 2 or run == "better" else "I do not know."
        yield {
            "sample_id": f"q{number}",
            "retrieved": [
                {"doc": {"doc_id": one, "text": f"Number {one[1:]} is & stays {one[1:]}."}, "score": 1 - place / 4}
                for place, one in enumerate(ids)
            ],
            "response": {"text": answer},
            "timings": {"end_to_end": 0.125 * (number + 1 + (run == "bad")), "retrieval": 0.0625},
            "usage": {"input_tokens": 10 + number},
        }


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """A JSONL file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three runs."""
    folder = tmp_path_factory.mktemp("golden_reports")
    write(folder / "data.jsonl", samples())
    for name in NAMES:
        write(folder / f"{name}.jsonl", outputs(name))
        plan = {
            "version": 1,
            "name": name,
            "dataset": "data.jsonl",
            "outputs": {"jsonl": f"{name}.jsonl", "config": {"model": f"m-{name}", "chunker_version": "1"}},
            "metrics": METRICS,
            "slices": ["labels.lang"],
            "gates": ["recall@3 >= 0.5", "token_f1 >= 0.99"],
        }
        (folder / f"{name}.yaml").write_text(json.dumps(plan), encoding="utf-8")
        with redirect_stdout(StringIO()), pytest.raises(SystemExit):
            main(["run", str(folder / f"{name}.yaml"), "--store", str(folder / "runs.sqlite"), "-q"])
    fix_runs(folder / "runs.sqlite")
    return folder / "runs.sqlite"


def fix_runs(path: Path) -> None:
    """Give the runs ids, times and a maker that are the same each time."""
    with closing(sqlite3.connect(path)) as database, database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = database.execute("SELECT run_id, name FROM eval_runs ORDER BY created_at, run_id").fetchall()
        for number, (run_id, name) in enumerate(found):
            for table in tables:
                if any(row[1] == "run_id" for row in database.execute(f"PRAGMA table_info({table})")):
                    database.execute(f"UPDATE {table} SET run_id = ? WHERE run_id = ?", (f"run_{name}", run_id))
            database.execute(
                "UPDATE eval_runs SET created_at = ?, finished_at = ?, version = '0', process = 'host:1:1',"
                " commit_hash = NULL WHERE run_id = ?",
                (f"2025-01-0{number + 1}T00:00:00+00:00", f"2025-01-0{number + 1}T00:01:00+00:00", f"run_{name}"),
            )
        database.execute("UPDATE eval_scores SET computed_at = '2025-01-09T00:00:00+00:00'")


@pytest.fixture
def store(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of the store in the current folder."""
    shutil.copy(made, tmp_path / "runs.sqlite")
    monkeypatch.chdir(tmp_path)
    return "runs.sqlite"


def plain(text: str) -> str:
    """A text without the version of the package, and without the time at which it was written."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", text)  # those of runs have seconds, and stay
    return text.replace(f"auepora {__version__}", "auepora VERSION")


# --- HTML ------------------------------------------------------------------------------------------------------------

WORDS = {"aria-label", "title", "content", "alt", "placeholder"}
"""Attributes that hold wording."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


class Page(HTMLParser):
    """A page as lines: its structure with the numbers of its tables, its other texts, and hashes of what is long.

    Of a drawing, the structure holds how many elements of each kind there are, and a hash of them and their attributes.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.structure: list[str] = []
        self.texts: list[str] = []
        self.assets: dict[str, str] = {}
        self.blocks: dict[str, bytes] = {}
        self._open: list[str] = []
        self._name = self._raw = ""
        self._svg: list[str] = []
        self._tags: Counter[str] = Counter()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img", "input", "hr", "wbr"):
            self._open.append(tag)
        named = {name: value or "" for name, value in attrs}
        if "svg" in self._open:
            self._svg.append(self.get_starttag_text() or "")
            self._tags[tag] += 1
            return
        self._name = named.get("id", "")
        # The policy holds hashes of the style and the script, which are recorded by themselves.
        words = {name: re.sub(r"sha256-[^']+", "sha256-HASH", one) for name, one in named.items() if name in WORDS}
        self.texts += [f"{tag} {name}: {plain(one)}" for name, one in words.items()]
        shown = "".join(f" {name}={value!r}" for name, value in named.items() if name not in WORDS)
        self.structure.append(f"{'  ' * (len(self._open) - 1)}{tag}{shown}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        if tag == "script" and self._name:
            self.blocks[self._name] = zlib.decompress(base64.b64decode(self._raw), 31)
        elif tag in ("script", "style"):
            self.assets[tag] = hashlib.sha256(self._raw.encode()).hexdigest()
        self._raw = ""
        if tag == "svg":
            # Numbers are rounded: the last digit of a coordinate may depend on the processor.
            drawn = NUMBER.sub(lambda found: f"{float(found[0]):.1f}", "".join(self._svg))
            tags = " ".join(f"{name}:{count}" for name, count in sorted(self._tags.items()))
            self.structure.append(
                f"{'  ' * len(self._open)}svg {tags} {hashlib.sha256(drawn.encode()).hexdigest()[:16]}"
            )
            self._svg, self._tags = [], Counter()

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside not in ("script", "style") and not data.strip():
            return
        if inside in ("script", "style"):
            self._raw += data  # which may come in pieces
        elif "svg" in self._open:
            self.texts.append(f"svg {inside}: {' '.join(data.split())}")
        elif "td" in self._open and re.search(r"\d", data):
            self.structure.append(f"{'  ' * len(self._open)}= {' '.join(data.split())}")
        else:
            self.texts.append(f"{inside}: {plain(' '.join(data.split()))}")


def decoded(blocks: dict[str, bytes]) -> dict[str, Any]:
    """The data of the query browser: JSON as it is, and every column as the numbers that it holds."""
    columns = blocks["qb-columns"]

    def filled(value: Any) -> Any:
        if isinstance(value, dict) and {"type", "at", "count"} <= value.keys():
            kind = {"f8": "d", "u1": "B", "u2": "H"}[value["type"]]
            numbers = struct.unpack_from(f"<{value['count']}{kind}", columns, value["at"])
            return {**value, "numbers": list(numbers)}
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        return [filled(inner) for inner in value] if isinstance(value, list) else value

    return {name: filled(json.loads(data)) for name, data in blocks.items() if name != "qb-columns"}


RUNS = {"run": NAMES[:1], "pair": NAMES[:2], "leaderboard": NAMES}


@pytest.mark.parametrize("name", RUNS)
def test_report(name: str, store: str, auepora: Auepora) -> None:
    for file in ("report.html", "report.md"):
        code, _, _ = auepora("report", *RUNS[name], "--store", store, "-o", file, "-q")
        assert code == 0
    page = Page(Path("report.html").read_text(encoding="utf-8"))
    check_golden_text(f"reports/{name}_structure.txt", "\n".join(page.structure) + "\n")
    check_golden_text(f"reports/{name}_text.txt", "\n".join(page.texts) + "\n")
    check_golden(f"reports/{name}_data.json", decoded(page.blocks))
    check_golden_text(f"reports/{name}.md", plain(Path("report.md").read_text(encoding="utf-8")))
    if name == "run":  # the others have the same
        check_golden("reports/assets.json", page.assets)


def test_notebook(store: str) -> None:
    with RunStore.open(store) as opened:
        results = opened.results("run_baseline")
        compared = compare_runs("run_baseline", "run_better", store=opened)
        chart = plot_runs("distribution", ["run_baseline"], store=opened)
    pages = {
        "results": Page(results._repr_html_()),
        "comparison": Page(compared._repr_html_()),
        "chart": Page(chart._repr_html_()),
    }
    lines = [f"{name}\n" + "\n".join(page.structure) for name, page in pages.items()]
    check_golden_text("reports/notebook_structure.txt", "\n".join(lines) + "\n")
    lines = [f"{name}\n" + "\n".join(page.texts) for name, page in pages.items()]
    check_golden_text("reports/notebook_text.txt", "\n".join(lines) + "\n")
    bundle = chart._repr_mimebundle_()
    check_golden("reports/notebook_chart_types.json", sorted(bundle))


# --- Markdown, tables, exports -----------------------------------------------------------------------------------------


def test_markdown_and_tables(store: str, auepora: Auepora) -> None:
    commands = {
        "compare_pair": ["compare", *NAMES[:2], "--why"],
        "compare_leaderboard": ["compare", *NAMES],
        "show": ["show", "baseline"],
        "gate": ["gate", "better", "-g", "recall@3 >= 0.5", "--against", "baseline", "-g", "delta(token_f1) > -0.5"],
    }
    for name, command in commands.items():
        for suffix in (".md", ".txt"):
            file = Path(f"{name}{suffix}")
            auepora(*command, "--store", store, "-o", str(file), "-q")
            check_golden_text(f"reports/{name}{suffix}", plain(file.read_text(encoding="utf-8")))
    auepora("compare", *NAMES[:2], "--store", store, "--report", "pages", "-q")
    (page,) = Path("pages").rglob("report.md")
    check_golden_text("reports/compare_page.md", plain(page.read_text(encoding="utf-8")))
    with RunStore.open(store) as opened:
        check_golden_text("reports/results.md", results_to_markdown(opened.results("run_baseline")) + "\n")


def test_csv_and_parquet(store: str, auepora: Auepora) -> None:
    found: dict[str, Any] = {}
    for name, command in {
        "compare pair": ["compare", *NAMES[:2]],
        "compare leaderboard": ["compare", *NAMES],
        "show": ["show", "better"],
    }.items():
        auepora(*command, "--store", store, "-o", "table.csv", "-q")
        found[name] = Path("table.csv").read_text(encoding="utf-8").splitlines()
    code, out, _ = auepora("export", "better", "exported", "--store", store, "--parquet", "--json")
    found["export"] = {"exit": code, "files": json.loads(out)}
    for file in ("results.csv", "scores.csv"):
        found[file] = (Path("exported") / file).read_text(encoding="utf-8").splitlines()
    for file in ("results.parquet", "scores.parquet"):
        table = pyarrow.parquet.read_table(Path("exported") / file)
        # Values as a table of columns: their names, types and order are what others read.
        found[file] = {
            "types": {field.name: str(field.type) for field in table.schema},
            "columns": {
                name: json.loads(json.dumps(column, default=str)) for name, column in table.to_pydict().items()
            },
        }
    check_golden("reports/tables.json", found)


def test_junit(store: str, auepora: Auepora) -> None:
    gates = ["recall@3 >= 0.5", "token_f1 >= 0.99", "delta(recall@3) > -0.01", "not worse(token_f1, by=0.01)"]
    options = [word for gate in gates for word in ("-g", gate)]
    code, out, _ = auepora(
        "gate", "better", *options, "--against", "baseline", "--store", store, "--junit", "gates.xml", "--json"
    )
    check_golden("reports/gates.json", {"exit": code, "report": json.loads(out)})
    check_golden_text("reports/gates.xml", Path("gates.xml").read_text(encoding="utf-8"))


def test_metric_cards(auepora: Auepora) -> None:
    pages = reference_pages()
    wording = ("summary", "text", "skips", "failures", "reference")
    for name in ("recall", "mean_latency", "claim_faithfulness"):
        _, out, _ = auepora("metrics", name, "--json")
        facts = {key: value for key, value in json.loads(out).items() if key not in wording}
        check_golden(f"reports/card_{name}.json", facts)
        _, text, _ = auepora("metrics", name)
        check_golden_text(f"reports/card_{name}.txt", text)
        check_golden_text(f"reports/card_{name}.md", pages[f"{name}.md"])


# --- charts ----------------------------------------------------------------------------------------------------------

PLOTS = [
    *((kind, NAMES[:1]) for kind in ("scores", "distribution", "latency", "curve", "rank", "slices", "causes")),
    *((kind, NAMES[:2]) for kind in ("distribution", "causes", "forest", "scatter", "wins")),
    ("scores", NAMES),
]
SYSTEM = '''
from auepora_eval import Document, Response, RetrievedDocument

class System:
    """Finds the document of the question at a rank, and repeats it, or says nothing."""
    def __init__(self, rank, talks):
        self.rank, self.talks = rank, talks

    def retrieve(self, query, *, top_k):
        number = query.rstrip("?").split()[2][:1].strip("<")
        ids = ["x1", "x2", "x3"]
        ids.insert(self.rank, f"d{number}")
        return [RetrievedDocument(Document(one, f"It is {one[1:]}"), 1 / rank, rank) for rank, one in enumerate(ids[:top_k], 1)]

    def generate(self, query, documents):
        return Response(documents[0].text if self.talks and documents else "No idea")
'''


@pytest.mark.slow
def test_charts(store: str, auepora: Auepora, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "golden_report_system", ModuleType("golden_report_system"))
    del sys.modules["golden_report_system"]
    specs: dict[str, Any] = {}
    drawings: list[str] = []
    configs: dict[str, Any] = {}

    def draw(name: str, kind: str, runs: tuple[str, ...], store: str) -> None:
        for suffix in ("json", "svg"):
            code, _, err = auepora("plot", kind, *runs, "--store", store, "-o", f"chart.{suffix}", "-q")
            assert code == 0, err
        spec = json.loads(Path("chart.json").read_text(encoding="utf-8"))
        configs[json.dumps(spec.pop("config"), sort_keys=True)] = None  # colours and sizes, the same in all
        specs[name] = spec
        page = Page(Path("chart.svg").read_text(encoding="utf-8"))
        drawings.extend([name, *page.structure, *page.texts])

    for kind, runs in PLOTS:
        draw(f"{kind} of {len(runs)}", kind, runs, store)
    swept_and_replayed(auepora)
    draw("noise", "noise", ("second [noise=0]",), "sweep.sqlite")
    draw("split of 2", "split", ("first", "second"), "replay.sqlite")
    check_golden("reports/charts.json", {"config": [json.loads(one) for one in configs], "specs": specs})
    check_golden_text("reports/charts_svg.txt", plain("\n".join(drawings) + "\n"))


def swept_and_replayed(auepora: Auepora) -> None:
    """A store with a sweep over noise, and one with two runs and the replay between them."""
    Path("golden_report_system.py").write_text(SYSTEM, encoding="utf-8")
    write(Path("data.jsonl"), samples())
    for name, arguments in {"first": {"rank": 2, "talks": True}, "second": {"rank": 0, "talks": True}}.items():
        plan = {
            "version": 1,
            "name": name,
            "dataset": "data.jsonl",
            "system": {"python": "golden_report_system:System", "args": arguments},
            "metrics": ["recall@2", "token_f1"],
            "run": {"top_k": 3},
        }
        Path(f"{name}.yaml").write_text(json.dumps(plan), encoding="utf-8")
        assert auepora("run", f"{name}.yaml", "--store", "replay.sqlite", "-q")[0] == 0
    assert auepora("replay", "first", "second", "second.yaml", "--store", "replay.sqlite", "-q")[0] == 0
    assert auepora("run", "second.yaml", "--store", "sweep.sqlite", "--perturb", "noise=0,0.5,1", "-q")[0] == 0


def test_chart_for_altair(store: str) -> None:
    need("altair")
    with RunStore.open(store) as opened:
        chart = plot_runs("scores", ["run_baseline"], store=opened)
    drawn = chart.to_altair().to_dict(validate=False)
    assert drawn["title"] == chart.spec["title"]
    assert len(drawn["vconcat"]) == len(chart.spec["vconcat"])
