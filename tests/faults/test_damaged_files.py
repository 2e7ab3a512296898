"""Mutated files of every kind that commands read, zip bombs among them: an error that names the file, no traceback."""

import json
import random
import zipfile
from pathlib import Path

import pytest

from auepora_eval.io.labels import Label, LabelEvent, LabelKey, write_labels
from auepora_eval.store import RunStore
from helpers import stored_runs
from helpers.faults import mutate, problem_of, rounds, run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PLAN = """\
version: 1
name: nightly
dataset: data.jsonl
outputs: outputs.jsonl
metrics: [recall@2, mrr, {"ndcg@3": {as: third}}]
slices: [labels.kind]
store: other.sqlite
gates: ["recall@2 >= 0.1"]
"""
CSV = "id;question;gold;found;answer\n" + "".join(
    f'q{n};"Who, {n}?";d{n}|e;d{n}|x;"an ""answer"" {n}"\n' for n in range(6)
)
COLUMNS = "sample_id=id,query=question,reference=gold,contexts=found,response=answer"
QRELS = "".join(f"{n} 0 d{n} {n % 3}\n{n} 0 e{n} 1\n" for n in range(6))
RUN = "".join(f"{n} Q0 d{n} 1 {9 - n}.5 mine\n{n} Q0 x{n} 2 {8 - n}.5 mine\n" for n in range(6))


def jsonl(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_workbook(path: Path) -> None:
    """A workbook with the rows of the CSV file, made of its few parts."""
    rows = [line.replace('"', "").split(";") for line in CSV.splitlines()]
    cells = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row) + "</row>" for row in rows
    )
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{cells}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


def write_bomb(path: Path) -> None:
    """A workbook of 400 kB with a sheet of 400 MB."""
    name = "xl/worksheets/sheet1.xml"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as sheet,
    ):
        for _ in range(400):
            sheet.write(b"<row></row>" * 95_000)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small valid file of each kind."""
    folder = tmp_path_factory.mktemp("originals")
    with RunStore.open(folder / "runs.sqlite") as store:
        for name in ("base", "other"):
            stored_runs.run(store, name, stored_runs.samples(6), lambda number: ["gold", f"d{number}"], ["recall@2"])
    samples = [{"sample_id": f"q{n}", "query": f"Who {n}?", "relevant_docs": [f"d{n}", {"doc_id": "e", "text": "x"}], "reference_answers": [f"answer {n}"], "labels": {"kind": "a" if n % 2 else "b"}} for n in range(6)]  # fmt: skip
    outputs = [{"sample_id": f"q{n}", "retrieved": [f"d{n}", {"doc": {"doc_id": "x", "text": "y"}, "score": 0.5}], "response": f"an answer {n}"} for n in range(6)]  # fmt: skip
    (folder / "data.jsonl").write_bytes(jsonl(*samples))
    (folder / "outputs.jsonl").write_bytes(jsonl(*outputs))
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "table.csv").write_text(CSV)
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "run.txt").write_text(RUN)
    write_workbook(folder / "table.xlsx")
    labels = [Label(f"q{n:05}", "right" if n % 2 else "wrong", name) for n in range(6) for name in ("ann", "bob")]
    write_labels(folder / "labels.jsonl", labels)
    events = [
        LabelEvent("claim", by="ann", claim="0" * 64),
        LabelEvent("shown", LabelKey("q00001", "eve", adjudicated=True)),
    ]
    with (folder / "labels.jsonl").open("ab") as file:
        file.write(jsonl(*(event.to_dict() for event in events)))
    return folder


TABLE = f"--columns {COLUMNS}"
CASES = {  # the file that is mutated, and commands that read it
    "data.jsonl": ("score data.jsonl outputs.jsonl -m recall@2", "validate data.jsonl", "convert data.jsonl new.jsonl"),
    "outputs.jsonl": ("score data.jsonl outputs.jsonl -m token_f1", "validate data.jsonl outputs.jsonl"),
    "plan.yaml": ("validate plan.yaml", "run plan.yaml"),
    "table.csv": (f"validate table.csv {TABLE}", f"score table.csv {TABLE} -m token_f1"),
    "table.xlsx": (f"validate table.xlsx {TABLE}", f"score table.xlsx {TABLE} -m token_f1"),
    "data.parquet": ("validate data.parquet", "score data.parquet outputs.jsonl -m recall@2"),
    "qrels.txt": ("score --qrels qrels.txt --run run.txt -m ndcg@3",),
    "run.txt": ("score --qrels qrels.txt --run run.txt -m ndcg@3",),
    "labels.jsonl": (
        "label --agreement labels.jsonl",
        "judge calibrate base --labels labels.jsonl -m recall@2",
        "label --release ann --labels labels.jsonl",
    ),
    "drawn.draw.json": ("label base --n 4 --labels drawn.jsonl --annotator ann",),
    "labels/corrections.jsonl": ("gold preview", "gold list", "rescore base -m mrr"),
    "labels/sets/hard.json": ("samples", "samples hard", "queries base --samples hard"),
}


COMMANDS = (
    "convert data.jsonl data.parquet",
    "label base --n 4 --labels drawn.jsonl --annotator ann",
    "gold propose base q00001 --document d1 --grade 1 --why relevant",
    "queries base --where recall@2>=0 --save hard --reason looked-at",
)
"""They write Parquet, a draw, corrections, and a set of samples."""


def test_damaged_files(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(originals)
    monkeypatch.setenv("AUEPORA_STORE", "runs.sqlite")
    monkeypatch.setattr("sys.stdin", None)
    for command in COMMANDS:
        assert run_command(capsys, *command.split())[0] == 0, command
    names = sorted(CASES)
    valid = [command for commands in CASES.values() for command in commands]
    codes = {command: run_command(capsys, *command.split())[0] for command in valid}
    assert [command for command, code in codes.items() if code not in (0, 1, 3)] == []
    contents = {name: (originals / find(originals, name)).read_bytes() for name in names}
    problems, refused = [], 0
    count = rounds(1000, 100)
    for number in range(count):
        rng = random.Random(number)
        name = names[number % len(names)]
        path, command = originals / find(originals, name), rng.choice(CASES[name])
        path.write_bytes(mutate(contents[name], rng))
        try:
            code, message = run_command(capsys, *command.split())
        except Exception as error:
            problems.append(f"{number} {command}: {type(error).__name__}: {error}")
            continue
        finally:
            path.write_bytes(contents[name])
        refused += code == 2
        found = "an unexpected error: " + message[-200:] if code == 4 else problem_of(code, message)
        if found is not None:
            problems.append(f"{number} {command}: {found}")
    assert problems == [], f"{len(problems)} problems:\n" + "\n".join(problems[:60])
    assert refused > count // 10


PAST_FINDS = [  # the file, the seed of its mutation, why
    ("table.xlsx", 35, "compressed data without an end of a block"),
    ("table.xlsx", 263, "compressed data that refers to what is not there"),
    ("table.xlsx", 815, "compressed data with a table that is no table"),
]


@pytest.mark.parametrize(("name", "seed", "why"), PAST_FINDS, ids=[why for *_, why in PAST_FINDS])
def test_past_finds(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, seed: int, why: str
) -> None:
    """Files that once ended a command with a traceback."""
    rng = random.Random(seed)
    rng.choice(CASES[name])
    path = tmp_path / name
    path.write_bytes(mutate((originals / name).read_bytes(), rng))
    for command in CASES[name]:
        code, message = run_command(capsys, *command.replace(name, str(path)).split())
        assert (code in (1, 2), problem_of(code, message)) == (True, None), message
        assert str(path) in message or name in message


def find(folder: Path, name: str) -> Path:
    """The file, wherever the commands have put it."""
    return next(path.relative_to(folder) for path in sorted(folder.rglob(Path(name).name)))


def test_a_bomb_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bomb(tmp_path / "bomb.xlsx")
    assert (tmp_path / "bomb.xlsx").stat().st_size < 2_000_000
    code, message = run_command(capsys, "validate", str(tmp_path / "bomb.xlsx"), *TABLE.split())
    assert (code in (1, 2), problem_of(code, message)) == (True, None), message
