"""Formats of data files, as recorded: which one is detected, what is read, and what ``auepora convert`` writes."""

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet
import pytest
import zstandard

from auepora_eval import AueporaError
from auepora_eval.io.codec import encode_output, encode_sample
from auepora_eval.io.formats import Format, formats, guess_format
from auepora_eval.io.join import iter_outputs, iter_samples
from helpers.golden import GOLDEN, check_golden, check_golden_text

Auepora = Callable[..., tuple[int, str, str]]
Role = Literal["samples", "outputs"]

FILES = GOLDEN / "formats" / "files.json"
"""The files by name: their text, or their bytes in base 64. Written by hand; no test records it."""
INSIDE = ("beir/qrels/train.tsv", "beir/qrels/test.tsv", "beir/queries.jsonl", "beir/corpus.jsonl")
"""Files of a folder that are read by themselves, beside every file and folder at the top."""
ROLES: tuple[Role, ...] = ("samples", "outputs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all files."""
    for name, content in json.loads(FILES.read_text(encoding="utf-8")).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])
        path.write_bytes(data)
    return tmp_path


def test_formats_in_order_of_detection() -> None:
    check_golden("formats/formats.json", {name: described(found) for name, found in formats().items()})


def described(found: Format) -> dict[str, Any]:
    """What a format can read, write and hold."""
    can = ("read_samples", "read_outputs", "write_samples", "write_outputs", "write_both")
    holds = ("sample_fields", "output_fields", "nested_losses")
    return {
        "can": [name for name in can if getattr(found, name) is not None],
        **{name: None if (value := getattr(found, name)) is None else sorted(value) for name in holds},
        "one_file": found.one_file,
        "judged_pool": found.conventions == "trec",
    }


OWN_FORMAT = """
import sys
from pathlib import Path
from auepora_eval.io.formats import Format, formats, guess_format, register_format
import auepora_eval.io.jsonl, auepora_eval.io.squad, auepora_eval.io.beir
register_format(Format("own", "a format of a user", lambda head, role: head.path.name == "dataset.jsonl", lambda p, q: iter(())))
print(*formats())
print(guess_format(Path(sys.argv[1]), "samples").name, guess_format(Path(sys.argv[2]), "samples").name)
"""


def test_format_of_a_user_comes_first_whatever_was_imported_before(folder: Path) -> None:
    arguments = [sys.executable, "-c", OWN_FORMAT, str(folder / "dataset.jsonl"), str(folder / "ragas.jsonl")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    check_golden_text("formats/own_format.txt", done.stdout)


def test_detected_formats_and_what_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # messages name files as they were given, and cut what is long
    names = [*dict.fromkeys(name.partition("/")[0] for name in json.loads(FILES.read_text(encoding="utf-8"))), *INSIDE]
    assert len(names) >= 80
    seen: dict[str, dict[str, Any]] = {}
    wording: list[str] = []
    for name in names:
        for role in ROLES:
            case = f"{name} as {role}"
            try:
                found = guess_format(Path(name), role).name
                seen[case] = {"format": found, **read(Path(name), role)}
            except AueporaError as error:
                seen[case] = {"error": type(error).__name__, "line": getattr(error, "line", None)}
                wording.append(f"{case}: {error}")
            if "message" in seen[case]:
                message = seen[case].pop("message")
                # What follows is the text of another package.
                wording.append(f"{case}: {message.partition(' as Parquet: ')[0]}")
    check_golden("formats/detected.json", seen)
    check_golden_text("formats/detected_wording.txt", "\n".join(wording) + "\n")


def read(path: Path, role: Role) -> dict[str, Any]:
    """How many records there are, and the first one as JSON; or the error and the number of records before it."""
    records: list[tuple[int | None, int | None, bytes]] = []
    try:
        records.extend(lines(path, role))
    except AueporaError as error:
        kind, line = type(error).__name__, getattr(error, "line", None)
        return {"error": kind, "line": line, "count_before": len(records), "message": str(error)}
    first = records[0] if records else None
    return {
        "count": len(records),
        "places": [[line, record] for line, record, _ in records],
        "first": None if first is None else json.loads(first[2]),
    }


def lines(path: Path, role: Role) -> Iterator[tuple[int | None, int | None, bytes]]:
    """The line, the record and the JSON of everything in a file."""
    if role == "samples":
        for sample in iter_samples(path):
            yield sample.line, sample.record, encode_sample(sample.sample)
    else:
        for output in iter_outputs(path):
            yield output.line, output.record, encode_output(output.sample_id, output.output)


# --- auepora convert -------------------------------------------------------------------------------------------------

SAMPLES: list[dict[str, Any]] = [
    {
        "sample_id": "q1",
        "query": "Who wrote Faust?",
        "relevant_docs": [
            {
                "doc_id": "d1",
                "text": "Goethe wrote Faust.",
                "metadata": {"page": 7},
                "parent_id": "p1",
                "span": [0, 19],
            },
            {"doc_id": "d2", "text": "Faust is a play."},
        ],
        "candidate_docs": [{"doc_id": "d3", "text": "Schiller wrote Don Carlos."}],
        "reference_answer": {"text": "Goethe", "metadata": {"by": "Ann"}},
        "reference_answers": ["Goethe", "J. W. von Goethe"],
        "labels": {"lang": "en", "difficulty": 2},
        "metadata": {"expected_doc_ids": ["p1"], "must_contain": ["Goethe"], "source": "exam"},
    },
    {
        "sample_id": "q2",
        "query": 'Wo liegt "Köln", am Rhein? 🙂',
        "relevant_docs": [{"doc_id": "d4", "text": "Köln liegt am Rhein.\nJa."}],
        "reference_answer": {"text": "am Rhein"},
        "history": [{"role": "user", "content": "Hallo"}, {"role": "assistant", "content": "Hallo!"}],
        "labels": {"lang": "de"},
        "cluster_id": "c1",
    },
]
OUTPUTS: list[dict[str, Any]] = [
    {
        "sample_id": "q1",
        "retrieved": [
            {"doc": {"doc_id": "d1", "text": "Goethe wrote Faust.", "metadata": {"page": 7}}, "score": 0.75},
            {"doc": {"doc_id": "d3", "text": "Schiller wrote Don Carlos."}, "score": 0.5},
        ],
        "response": {
            "text": "Goethe. It is a play.",
            "structured": {"author": "Goethe"},
            "sentences": [{"text": "Goethe.", "citations": ["d1"]}, {"text": "It is a play.", "citations": []}],
        },
        "timings": {"end_to_end": 0.25, "retrieval": 0.125},
        "extra": {"topic": "authors"},
        "citations": ["d1"],
        "usage": {"input_tokens": 10},
    },
    {
        "sample_id": "q2",
        "retrieved": [{"doc": {"doc_id": "d4", "text": "Köln liegt am Rhein."}}],
        "response": {"text": "am Rhein"},
        "refused": False,
        "steps": [{"query": "Köln", "retrieved": ["d4"]}],
    },
]
# Name, options after IN, and the file or folder that is written. Each is converted back to JSONL where it can be.
TARGETS: list[tuple[str, Role, list[str], str]] = [
    ("jsonl samples", "samples", [], "to.jsonl"),
    ("jsonl compressed", "samples", [], "to.jsonl.gz"),
    ("jsonl zstd", "samples", [], "to.ndjson.zst"),
    ("beir", "samples", ["--to", "beir"], "to_beir"),
    ("golden", "samples", [], "to.yaml"),
    ("trec qrels", "samples", ["--to", "trec"], "to_qrels.txt"),
    ("parquet samples", "samples", [], "to.parquet"),
    ("ragas", "samples", ["--to", "ragas"], "to_ragas.json"),
    ("ragas lines and outputs", "samples", ["--to", "ragas", "--outputs-in", "outputs.jsonl"], "to_ragas.jsonl"),
    ("ragas table and outputs", "samples", ["--to", "ragas", "--outputs-in", "outputs.jsonl"], "to_ragas.csv"),
    ("deepeval and outputs", "samples", ["--to", "deepeval", "--outputs-in", "outputs.jsonl"], "to_deepeval.json"),
    ("deepeval and ids alone", "samples", ["--to", "deepeval", "--outputs-in", "run.txt"], "to_deepeval_ids.json"),
    ("deepeval table", "samples", ["--to", "deepeval"], "to_deepeval.tsv"),
    ("squad samples", "samples", ["--to", "squad"], "to_squad.json"),
    ("traces samples", "samples", ["--to", "traces"], "to_traces.json"),
    ("jsonl outputs", "outputs", [], "to_outputs.jsonl"),
    ("trec run", "outputs", ["--to", "trec"], "to_run.txt"),
    ("trec rag", "outputs", ["--to", "trec_rag"], "to_rag.jsonl"),
    ("squad predictions", "outputs", ["--to", "squad"], "to_predictions.json"),
    ("parquet outputs", "outputs", [], "to_outputs.parquet"),
    ("golden outputs", "outputs", ["--to", "golden"], "to_outputs.yaml"),
    ("unknown suffix", "samples", [], "to.xyz"),
    ("unknown format", "samples", ["--to", "beri"], "to_unknown"),
]


def test_convert_to_every_format(auepora: Auepora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("samples.jsonl", SAMPLES), ("outputs.jsonl", OUTPUTS)):
        Path(name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    Path("run.txt").write_text("q1 Q0 d1 1 0.5 tag\n", encoding="utf-8")
    converted: dict[str, Any] = {}
    wording: list[str] = []
    for name, role, options, target in TARGETS:
        case = converted[name] = run(auepora, wording, f"{role}.jsonl", target, "--role", role, *options)
        if Path(target).exists():
            case["files"] = contents(Path(target))
            back = Path(f"back_from_{target}.jsonl")
            case["back"] = run(auepora, wording, target, str(back), "--role", role)
            case["lines_back"] = back.read_text(encoding="utf-8").splitlines() if back.exists() else None
    check_golden("formats/converted_to.json", converted)
    check_golden_text("formats/converted_to_wording.txt", "".join(wording))


# File, and where its outputs go.
SOURCES: list[tuple[str, str | None]] = [
    ("dataset.jsonl", None),
    ("outputs.jsonl", None),
    ("beir", None),
    ("beir/qrels/train.tsv", None),
    ("golden.yaml", None),
    ("golden_list.yml", None),
    ("qrels.txt", None),
    ("run.txt", None),
    ("squad.json", None),
    ("predictions.json", None),
    ("ragas.json", "outputs.out.jsonl"),
    ("ragas.csv", None),
    ("ragas_before_0.2.jsonl", "outputs.out.jsonl"),
    ("deepeval.json", "outputs.out.jsonl"),
    ("trec_rag.jsonl", None),
    ("trec_rag_2025.jsonl", None),
    ("spans.jsonl", "outputs.out.jsonl"),
    ("otlp.json", "outputs.out.jsonl"),
    ("genai_spans.json", "outputs.out.jsonl"),
    ("dataset.parquet", None),
    ("outputs.pq", None),
    ("OUTPUTS.JSONL.ZST", None),
    ("question_and_answer.jsonl", None),
    ("object.json", None),
]


def test_convert_from_every_format(auepora: Auepora, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    converted: dict[str, Any] = {}
    wording: list[str] = []
    for source, outputs in SOURCES:
        target = Path("converted.jsonl")
        options = ["--outputs", outputs] if outputs else []
        case = converted[source] = run(auepora, wording, source, str(target), *options)
        for name in filter(None, (str(target), outputs)):
            if Path(name).exists():
                case[name] = Path(name).read_text(encoding="utf-8").splitlines()
                Path(name).unlink()
    check_golden("formats/converted_from.json", converted)
    check_golden_text("formats/converted_from_wording.txt", "".join(wording))


def run(auepora: Auepora, wording: list[str], *arguments: str) -> dict[str, Any]:
    """What ``auepora convert`` did; its messages go to ``wording``."""
    code, out, err = auepora("convert", *arguments, "--json")
    if err:
        wording.append(f"{' '.join(arguments)}: {err}")
    return {"exit": code, "done": json.loads(out) if out else None}


def contents(path: Path) -> Any:
    """What was written: texts by name for a folder, lines of text, or the schema and rows of a Parquet file."""
    if path.is_dir():
        return {str(one.relative_to(path)): contents(one) for one in sorted(path.rglob("*")) if one.is_file()}
    data = path.read_bytes()
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        fields = {field.name: str(field.type) for field in table.schema}
        return {"fields": fields, "rows": table.to_pylist()}
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data.decode().splitlines(keepends=True)
