"""Parsing of plan files: YAML, TOML and JSON, invalid files and malicious ones."""

from pathlib import Path

import pytest

from auepora_eval.errors import PlanError
from auepora_eval.plan.prepare import read_plan
from auepora_eval.plan.source import looks_like_plan, read_source

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
EMPTY_LAUGHS = LAUGHS.replace("[x, x]", "[]")

BROKEN = [  # file, content, line, words, why
    ("p.yaml", b"", None, "the file is empty", "an empty file"),
    ("p.yaml", b" \n\n", None, "the file is empty", "blank lines"),
    ("p.yaml", b"# dataset: x\n", 1, "there are only comments in it", "comments alone"),
    ("p.yaml", b"- dataset: x\n", 1, "not a list", "a list at the top"),
    ("p.yaml", b"dataset\n", 1, "not a single value", "a word"),
    ("p.json", b"[]", 1, "not a list", "an empty list of JSON"),
    ("p.yaml", b"dataset: [x\n", None, "not valid YAML", "an open bracket"),
    ("p.yaml", b"dataset: x\n\toutputs: y\n", 2, "line 2 is indented with a tab; use spaces", "a tab"),
    ("p.yaml", b"run:\n  top_k: 5\n\n  \tretries: 1\n", 4, "line 4 is indented with a tab", "a tab after spaces"),
    ("p.yaml", b"a: 1\n---\nb: 2\n", None, "not valid YAML", "two documents"),
    ("p.yaml", b"dataset: x\ndataset: y\n", 2, "key 'dataset' is already on line 1", "a key twice"),
    ("p.yaml", b"run: {top_k: 1, top_k: 2}\n", 1, "key 'top_k' is already on line 1", "an inner key twice"),
    ("p.yaml", b"name: !!python/object/apply:os.system ['true']\n", 1, "which is not read", "a tag that makes objects"),
    ("p.yaml", b"name: !!python/name:os.system\n", 1, "which is not read", "a tag that names a function"),
    ("p.yaml", b"name: !mine x\n", 1, "which is not read", "a tag of one's own"),
    ("p.yaml", b"name: !!binary aGk=\n", 1, "which is not read", "bytes"),
    ("p.yaml", LAUGHS.encode(), None, "aliases repeat too much", "aliases that multiply"),
    ("p.yaml", EMPTY_LAUGHS.encode(), None, "aliases repeat too much", "aliases that multiply nothing"),
    ("p.yaml", b"a: &a [*a]\n", None, "", "an alias of itself"),
    ("p.yaml", b"a: " + b"[" * 5000 + b"]" * 5000, None, "nested too deeply", "deep lists"),
    ("p.yaml", b"name: \xff\n", 1, "byte 0xff is not valid UTF-8", "bytes that are no text"),
    ("p.yaml", "name: ä\n".encode("utf-16"), 1, "UTF-16; save it as UTF-8", "another encoding"),
    ("p.yaml", b"run: {timeout: .nan}\n", 1, "numbers must be finite", "no number"),
    ("p.yaml", b"run: {top_k: 0x" + b"f" * 6000 + b"}\n", 1, "too large a number", "a number of 6000 digits"),
    ("p.toml", b"dataset = \n", 1, "not valid TOML", "TOML without a value"),
    ("p.toml", b"a = 1\na = 2\n", 2, "not valid TOML: Cannot overwrite a value", "a key twice in TOML"),
    ("p.toml", b"[run]\ntimeout = nan\n", None, "numbers must be finite", "no number in TOML"),
    ("p.toml", b"a = " + b"9" * 30 + b"\n", None, "too large a number", "a number of 30 digits in TOML"),
    ("p.toml", b"a = " + b"[" * 5000 + b"]" * 5000, None, "nested too deeply", "deep lists in TOML"),
    ("p.json", b'{"dataset": "x",}', 1, "not valid JSON", "a comma too many"),
    ("p.json", b'{"a": 1, "a": 2}', None, "key 'a' occurs twice", "a key twice in JSON"),
    ("p.json", b'{"a": NaN}', None, "NaN is no JSON", "no number in JSON"),
    ("p.json", b'{"a": 1e999}', None, "must be finite", "a number beyond all in JSON"),
    ("p.json", b'{"name": "\\ud800"}', None, "half of a surrogate pair", "half a character"),
    ("p.json", b"[" * 100_000, None, "nested too deeply", "deep lists in JSON"),
    ("p.txt", b"dataset: x\n", None, "a plan is YAML, TOML or JSON", "another suffix"),
    ("p.yalm", b"dataset: x\n", None, "did you mean '.yaml'", "a misspelt suffix"),
    ("plan", b"dataset: x\n", None, "by suffix", "no suffix"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "line", "message", "why"), BROKEN, ids=[row[4] for row in BROKEN])
def test_invalid_plan_files(
    name: str, content: bytes, line: int | None, message: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlanError) as raised:
        read_plan(tmp_path / name)
    assert message in raised.value.problem
    assert line is None or raised.value.line == line


def test_missing_file_or_folder(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such file"):
        read_plan(tmp_path / "plan.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(PlanError, match="is a directory"):
        read_plan(tmp_path / "folder.yaml")


LINES = [  # file, text, {key: line}
    ("p.yaml", "dataset: x\nrun:\n  # patient\n  top_k: 5\nmetrics:\n- a\n- b\n", {"run.top_k": 4, "metrics[1]": 7}),
    ("p.toml", 'dataset = "x"\n[run]\n# patient\ntop_k = 5\n[system.http]\nurl = "y"\n', {"run.top_k": 4, "system.http.url": 6}),
    ("p.toml", 'run.top_k = 5\nmetrics = [\n  "a",\n  "b"\n]\n', {"run.top_k": 1, "metrics[1]": 2, "run": None}),
    ("p.json", '{\n "run": {\n  "top_k": 5\n },\n "metrics": ["a",\n  "b"]\n}', {"run.top_k": 3, "metrics[1]": 6}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "lines"), LINES)
def test_lines_of_keys(name: str, text: str, lines: dict[str, int | None], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    source = read_source(tmp_path / name)
    assert {key: source.line(key) for key in lines} == lines


def test_json_that_is_not_yaml_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"dataset": "a\\/b", "outputs": "\\ud83d\\ude00"}')
    assert read_source(tmp_path / "p.json").values == {"dataset": "a/b", "outputs": "😀"}


def test_yaml_merges_and_aliases(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "dataset: d\nsystem:\n  python: 'a:b'\n  args: &usual {x: 1}\n  config: {<<: *usual, y: 2}\n"
    )
    assert read_plan(tmp_path / "p.yaml").config == {"x": 1, "y": 2}


KINDS = [  # file, content, whether it is a plan, why
    ("p.yaml", "version: 1\ndataset: x\n", True, "a plan"),
    ("p.yml", "# hello\n\nname: x\nsystem:\n  python: a:b\n", True, "a plan without a dataset yet"),
    ("p.yaml", "datset: x\noutputs: y\nmetrics: [a]\n", True, "a plan with a slip"),
    ("p.yaml", "{dataset: x, outputs: y}", True, "a plan on one line"),
    ("p.toml", "x = 1\n", True, "TOML is never data"),
    ("p.json", '{"dataset": "x", "system": {"http": {"url": "y", "request": {"query": "{query}"}}}}', True, "a plan of JSON"),
    ("p.json", '{"dataset": "x", "outputs": "y",}', True, "a plan of JSON with a comma too many"),
    ("p.yaml", "version: 1\nqueries:\n- id: a\n  query: b\n", False, "golden queries"),
    ("p.yaml", "- id: a\n  query: b\n", False, "a list of golden queries"),
    ("p.json", '{"version": "v2.0", "data": []}', False, "SQuAD"),
    ("p.json", '[{"dataset": "x", "system": "y"}]', False, "a list of records"),
    ("p.json", '{"sample_id": "1", "query": "x", "metadata": {"dataset": "nq", "system": "y"}}', False, "a sample"),
    ("p.jsonl", '{"dataset": "x", "outputs": "y"}', False, "JSONL"),
    ("p.json", '{"question": "x", "answer": "y", "dataset": "nq"}', False, "a record of a dataset of that name"),
    ("p.yaml", "", False, "nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "is_plan", "why"), KINDS, ids=[row[3] for row in KINDS])
def test_looks_like_plan(name: str, content: str, is_plan: bool, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert looks_like_plan(tmp_path / name) is is_plan


def test_folder_is_not_a_plan(tmp_path: Path) -> None:
    assert not looks_like_plan(tmp_path / "plan.yaml")
    assert not looks_like_plan(tmp_path)


def test_change_keys_at_any_depth(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("dataset: d.jsonl\nsystem:\n  python: m:Rag\n  args: {r: 0.5, k: 3}\n")
    source = read_source(path)
    found = source.with_changes({"system.args.r": 0.1, "run.top_k": 4, "name": "x", "judge.cache.path": "c"})
    assert found.values["system"] == {"python": "m:Rag", "args": {"r": 0.1, "k": 3}}
    assert (found.values["run"], found.values["name"]) == ({"top_k": 4}, "x")
    assert found.values["judge"] == {"cache": {"path": "c"}}
    assert source.values["system"]["args"] == {"r": 0.5, "k": 3}  # what was read stays as it is
    with pytest.raises(PlanError, match=r"'dataset\.corpus' cannot be set; set 'dataset' as a whole") as caught:
        source.with_changes({"dataset.corpus": "c.jsonl"})
    assert (caught.value.key, caught.value.line) == ("dataset", 1)
