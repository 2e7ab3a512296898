"""Sharded input: whatever the files, batches and formats, the results are those of the whole lists, to the last bit."""

import gzip
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import evaluate
from auepora_eval.core.registry import Spec
from auepora_eval.core.results import Results
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.engine.executors import BatchSource
from auepora_eval.errors import BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.formats import is_sharded
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.io.parquet import save_parquet_dataset, save_parquet_outputs
from auepora_eval.runtime.files import open_bytes
from auepora_eval.scale import inputs, streams
from auepora_eval.scale.sharded import sharded_sources
from helpers import requirements
from helpers.builders import output, sample
from helpers.generated_shards import rows, write_shards
from helpers.requirements import examples

METRICS: list[Spec] = [
    "recall@2",
    "ndcg@3",
    "token_f1",
    "bleu",
    "rejection_f1",
    "distinct_n",
    {"noise_robustness": {"base": "token_f1"}},
]


@cache
def from_lists(total: int, *, missing: bool = True) -> Results:
    """The results of so many rows, computed from whole lists."""
    return evaluate(*rows(total, missing=missing), METRICS, slices="labels.lang")


def scored(dataset: Any, outputs: Any = None, *, metrics: Any = None, keep: bool = True, **options: Any) -> Any:
    sharded = sharded_sources(dataset, outputs, **options)
    return evaluate_sources(sharded.sources, metrics or METRICS, slices="labels.lang", keep_scores=keep)


# How a file is compressed does not depend on the batches.
KINDS = [
    pytest.param(suffix, size, id=f"{size}-{suffix}", marks=[pytest.mark.slow] if size == 1 and "z" in suffix else [])
    for size in (1, 25)
    for suffix in (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
]


@pytest.mark.parametrize(("suffix", "batch_size"), KINDS)
@pytest.mark.parametrize("missing", [False, True], ids=["in order", "outputs missing"])
def test_the_same_as_from_lists(tmp_path: Path, suffix: str, batch_size: int, missing: bool) -> None:
    if suffix == ".parquet":
        requirements.need("pyarrow")
    given, want = rows(70, missing=missing), from_lists(70, missing=missing)
    named = write_shards(tmp_path, given, [30, 31], [20, 50], suffix)
    sharded = sharded_sources(*named, batch_size=batch_size)
    assert sharded.total == 70
    assert sum(one.size for one in sharded.sources) == 70
    assert all(isinstance(one, BatchSource) for one in sharded.sources)
    got = evaluate_sources(sharded.sources, METRICS, slices="labels.lang")
    assert got == want
    assert got.sample_ids == want.sample_ids
    assert len(sharded.missing) == sum(one is None for one in given[1])
    assert not sharded.unknown


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(
    total=st.integers(1, 60),
    cuts=st.lists(st.integers(1, 59), max_size=4),
    output_cuts=st.lists(st.integers(1, 59), max_size=4),
    batch_size=st.integers(1, 70),
    order=st.sampled_from(["same", "reversed", "rotated"]),
)
def test_any_batch_size_gives_the_same(
    total: int, cuts: list[int], output_cuts: list[int], batch_size: int, order: str
) -> None:
    samples, outputs = rows(total, missing=False)
    want = evaluate(samples, outputs, METRICS, slices="labels.lang")
    places = {"same": range(total), "reversed": range(total - 1, -1, -1), "rotated": [*range(1, total), 0]}[order]
    with TemporaryDirectory() as folder:
        # The samples as they are, and the outputs in their own order: written apart.
        named, _ = write_shards(Path(folder), (samples, outputs), cuts, [])
        other = Path(folder) / "other"
        other.mkdir()
        turned = [samples[place] for place in places], [outputs[place] for place in places]
        _, answers = write_shards(other, turned, [], output_cuts)
        assert scored(named, answers, batch_size=batch_size) == want


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_file_is_opened_once_per_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """Or else a compressed file would be gone through from its beginning for each of its records."""
    if suffix == ".parquet":
        requirements.need("pyarrow")
    samples, outputs = rows(120, missing=False)
    named, _ = write_shards(tmp_path, (samples, outputs), [], [], suffix)
    other = tmp_path / "other"
    other.mkdir()
    places = sorted(range(120), key=lambda place: place * 37 % 120)
    turned = [samples[place] for place in places], [outputs[place] for place in places]
    _, answers = write_shards(other, turned, [], [50], suffix)
    sharded = sharded_sources(named, answers, batch_size=4 if suffix in (".jsonl.gz", ".jsonl.zst") else 64)
    assert [len(list(one.outputs)) > 10 for one in sharded.sources] == [True, True]
    opened: list[str] = []
    streams.close_streams()

    def counted(path: Path) -> Any:
        opened.append(path.name)
        return open_bytes(path)

    for module in (inputs, streams):
        monkeypatch.setattr(module, "open_bytes", counted)
    read = [source.read() for source in sharded.sources]
    assert [one for some, _ in read for one in some] == samples
    assert [one for _, some in read for one in some] == outputs
    assert 3 <= len(opened) <= 3 * len(read)  # a file of samples and two of outputs; compressed ones are read on


@pytest.mark.slow
def test_read_by_other_processes(tmp_path: Path) -> None:
    requirements.need("pyarrow")
    sharded = sharded_sources(*write_shards(tmp_path, rows(150), [90], [70], ".parquet"), batch_size=16)
    got = evaluate_sources(sharded.sources, METRICS, slices="labels.lang", executor="processes", workers=2)
    assert got == from_lists(150)


def test_a_source_is_small(tmp_path: Path) -> None:
    sharded = sharded_sources(*write_shards(tmp_path, rows(300, missing=False), [], []), batch_size=100)
    assert len(sharded.sources) == 3
    assert all(len(pickle.dumps(one)) < 700 for one in sharded.sources)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
def test_relative_paths_work_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """Workers of a cluster start wherever the cluster was started."""
    if suffix == ".parquet":
        requirements.need("pyarrow")
    write_shards(tmp_path, rows(30), [10], [20], suffix)
    monkeypatch.chdir(tmp_path)
    sharded = sharded_sources(f"samples-*{suffix}", f"outputs-*{suffix}", batch_size=7)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    got = evaluate_sources(sharded.sources, METRICS, slices="labels.lang")
    assert got == from_lists(30)


def test_ids_can_be_read_by_a_pool(tmp_path: Path) -> None:
    named = write_shards(tmp_path, rows(100), [30], [60])
    with ThreadPoolExecutor(2) as pool:
        assert (
            sharded_sources(*named, batch_size=9, mapper=pool.map).sources
            == sharded_sources(*named, batch_size=9).sources
        )


def test_ids_with_equal_hashes_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 64 bits were four: every id then looks like dozens of others."""
    strong = inputs.hash_ids
    monkeypatch.setattr(inputs, "hash_ids", lambda ids: strong(ids) % 13)
    named = write_shards(tmp_path, rows(150), [90], [70])
    assert scored(*named, batch_size=11) == from_lists(150)


def test_equal_hashes_in_order_are_compared_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strong = inputs.hash_ids
    monkeypatch.setattr(inputs, "hash_ids", lambda ids: strong(ids) * 0)
    samples, outputs = rows(20, missing=False)
    named, _ = write_shards(tmp_path, (samples, outputs), [], [])
    other = tmp_path / "other"
    other.mkdir()
    _, answers = write_shards(other, (samples[::-1], outputs[::-1]), [], [])
    assert scored(named, answers, batch_size=3) == evaluate(samples, outputs, METRICS, slices="labels.lang")


def test_blank_lines_and_marks_are_no_records(tmp_path: Path) -> None:
    given = rows(9, missing=False)
    save_jsonl_dataset(given[0], tmp_path / "plain.jsonl")
    lines = (tmp_path / "plain.jsonl").read_bytes().splitlines()
    (tmp_path / "s.jsonl").write_bytes(b"\xef\xbb\xbf\n  \n" + b"\r\n\n \t\n".join(lines) + b"\n\n  ")
    save_jsonl_outputs(
        [(one.sample_id, got) for one, got in zip(*given, strict=True) if got is not None], tmp_path / "o.jsonl"
    )
    for size in (1, 2, 4, 100):
        sharded = sharded_sources(tmp_path / "s.jsonl", tmp_path / "o.jsonl", batch_size=size)
        assert sharded.total == 9
        assert [one for source in sharded.sources for one in source.read()[0]] == given[0]


def test_files_come_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 9, 100):
        save_jsonl_dataset([sample(["a"], sample_id=f"q{number}")], tmp_path / f"part-{number}.jsonl")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-9.jsonl").write_text("")
    save_jsonl_outputs([(f"q{number}", output(["a"])) for number in (9, 10, 100)], tmp_path.parent / "o.jsonl")
    for given_as in (tmp_path, str(tmp_path / "*.jsonl"), [tmp_path / f"part-{n}.jsonl" for n in (9, 10, 100)]):
        sharded = sharded_sources(given_as, tmp_path.parent / "o.jsonl")
        assert [one.read()[0][0].sample_id for one in sharded.sources] == ["q9", "q10", "q100"]
    assert is_sharded(tmp_path)
    assert is_sharded(f"{tmp_path}/*.jsonl")
    assert not is_sharded(tmp_path / "part-9.jsonl")


def test_records_that_hold_both(tmp_path: Path) -> None:
    """Records of ragas: their number is their id where none has one, from the middle of a file, too."""
    lines = [
        f'{{"user_input": "q{n}?", "reference": "r{n}", "response": "r{n} x", "retrieved_contexts": ["c{n}"]}}'
        if n % 4
        else f'{{"user_input": "q{n}?", "reference": "r{n}"}}'
        for n in range(20)
    ]
    (tmp_path / "r.jsonl").write_text("\n\n".join(lines))
    sharded = sharded_sources(tmp_path / "r.jsonl", batch_size=6)
    assert sharded.formats == ("ragas", "ragas")
    assert [len(sharded.missing), list(sharded.missing[:3])] == [5, ["1", "5", "9"]]
    assert sharded.warnings() == [
        "5 of 20 samples have no output and count as failures: '1', '5', '9' and 2 more",
    ]
    read = [pair for one in sharded.sources for pair in zip(*one.read(), strict=True)]
    assert [one.sample_id for one, _ in read] == [str(n + 1) for n in range(20)]
    assert [got is None for _, got in read] == [n % 4 == 0 for n in range(20)]
    save_jsonl_dataset(rows(3)[0], tmp_path / "s.jsonl")
    with pytest.raises(BadValueError, match="holds samples alone; name their outputs"):
        sharded_sources(tmp_path / "s.jsonl")


def test_unmatched_samples_and_outputs_are_counted(tmp_path: Path) -> None:
    samples, outputs = rows(40, missing=False)
    save_jsonl_dataset(samples[:30], tmp_path / "s.jsonl")
    pairs = [(one.sample_id, got) for one, got in zip(samples, outputs, strict=True) if got is not None]
    save_jsonl_outputs(pairs[10:], tmp_path / "o.jsonl")
    sharded = sharded_sources(tmp_path / "s.jsonl", tmp_path / "o.jsonl", batch_size=7)
    assert sharded.warnings("trec") == [
        "10 of 30 samples have no output and are skipped: 'q0', 'q1', 'q2' and 7 more",
        "10 outputs belong to no sample and are left out: 'q30', 'q31', 'q32' and 7 more",
    ]
    want = evaluate(samples[:30], [None] * 10 + outputs[10:30], METRICS, slices="labels.lang")
    assert evaluate_sources(sharded.sources, METRICS, slices="labels.lang") == want


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    named = write_shards(tmp_path, rows(20), [10], [])
    first = sharded_sources(*named)
    assert first.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert sharded_sources(*named).fingerprint == first.fingerprint
    assert sharded_sources(*named, batch_size=5).fingerprint != first.fingerprint
    os.utime(tmp_path / "samples-1.jsonl", ns=(1, 1))
    assert sharded_sources(*named).fingerprint != first.fingerprint


# --- what is wrong with the files ------------------------------------------------------------------------------------


def both(folder: Path, total: int = 30) -> tuple[Path, Path]:
    samples, outputs = rows(total, missing=False)
    save_jsonl_dataset(samples, folder / "s.jsonl")
    save_jsonl_outputs(
        [(one.sample_id, got) for one, got in zip(samples, outputs, strict=True) if got is not None],
        folder / "o.jsonl",
    )
    return folder / "s.jsonl", folder / "o.jsonl"


def edited(path: Path, line: int, text: str) -> None:
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (23, "{", r"s\.jsonl:23: not valid JSON"),
        (23, '{"sample_id": "q22", "query": 3}', r"s\.jsonl:23: field 'query' must be a string"),
        (17, '{"sample_id": "", "query": "?"}', r"s\.jsonl:17: field 'sample_id' is empty"),
        (23, '{"query": "?"}', r"s\.jsonl:23: field 'sample_id' is missing"),
        (29, '{"sample_id": "q28", "query": "?", "labels": 3}', r"s\.jsonl:29: field 'labels' must be an object"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: int, text: str, message: str) -> None:
    samples, outputs = both(tmp_path)
    edited(samples, line, text)
    with pytest.raises(DataFileError, match=message):
        scored(samples, outputs, batch_size=4)


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    pa = requirements.need("pyarrow")
    from pyarrow import parquet

    ids = [f"q{n}" for n in range(20)]
    table = pa.table({"sample_id": ids, "query": [None if n == 13 else "?" for n in range(20)]})
    parquet.write_table(table, tmp_path / "s.parquet", row_group_size=8)
    save_parquet_outputs([(one, output(["a"])) for one in ids], tmp_path / "o.parquet")
    with pytest.raises(DataFileError, match=r"s\.parquet:14: field 'query' is missing"):
        scored(tmp_path / "s.parquet", tmp_path / "o.parquet", batch_size=3)


@pytest.mark.parametrize(("side", "column"), [("s", "sample_id"), ("s", "query"), ("o", "sample_id")])
def test_missing_column_is_found_before_scoring(tmp_path: Path, side: str, column: str) -> None:
    requirements.need("pyarrow")
    from pyarrow import parquet

    for number in range(2):
        save_parquet_dataset([sample(["a"], sample_id=f"q{number}")], tmp_path / f"s-{number}.parquet")
        save_parquet_outputs([(f"q{number}", output(["a"]))], tmp_path / f"o-{number}.parquet")
    path = tmp_path / f"{side}-1.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns([column]), path)
    with pytest.raises(DataFileError, match=rf"{side}-1\.parquet: column '{column}' is missing; it has '"):
        sharded_sources(f"{tmp_path}/s-*.parquet", f"{tmp_path}/o-*.parquet")


def test_an_id_that_comes_twice_is_named(tmp_path: Path) -> None:
    samples, outputs = both(tmp_path)
    edited(samples, 21, '{"sample_id": "q3", "query": "?"}')
    with pytest.raises(DuplicateIdError, match=r"s\.jsonl:21: sample_id 'q3' is already on line 4; each id may come"):
        sharded_sources(samples, outputs, batch_size=4)
    save_jsonl_dataset([sample(["a"], sample_id="q7")], tmp_path / "t.jsonl")
    both(tmp_path)
    with pytest.raises(DuplicateIdError, match=r"t\.jsonl:1: sample_id 'q7' is already at .*s\.jsonl:8"):
        sharded_sources([samples, tmp_path / "t.jsonl"], outputs)
    edited(outputs, 9, '{"sample_id": "q2", "retrieved": []}')
    with pytest.raises(DuplicateIdError, match=r"o\.jsonl:9: sample_id 'q2' is already on line 3"):
        sharded_sources(samples, outputs)


def test_rankings_must_be_on_all_lines_or_none(tmp_path: Path) -> None:
    samples, outputs = both(tmp_path)
    edited(outputs, 20, '{"sample_id": "q19", "response": "text"}')
    with pytest.raises(DataFileError, match=r"o\.jsonl:20: field 'retrieved' is missing; other lines have it"):
        scored(samples, outputs, batch_size=6)
    save_jsonl_dataset([sample(["a"], sample_id=f"q{n}", answer="yes") for n in range(4)], samples)
    outputs.write_text("\n".join(f'{{"sample_id": "q{n}", "response": "yes"}}' for n in range(4)))
    assert sharded_sources(samples, outputs).answers_only
    edited(outputs, 4, '{"sample_id": "q3", "retrieved": ["a"]}')
    with pytest.raises(DataFileError, match=r"o\.jsonl:4: field 'retrieved' is there, and not on the lines before"):
        scored(samples, outputs, metrics="token_f1", batch_size=2)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_file_that_changes_is_noticed(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        requirements.need("pyarrow")
    named = write_shards(tmp_path, rows(30), [], [], suffix)
    sharded = sharded_sources(*named, batch_size=10)
    sharded.sources[1].read()
    os.utime(tmp_path / f"outputs-0{suffix}", ns=(5, 5))
    with pytest.raises(DataFileError, match="has changed since it was split into ranges"):
        sharded.sources[1].read()
    (tmp_path / f"samples-0{suffix}").unlink()
    with pytest.raises(DataFileError, match="cannot be read any more"):
        sharded.sources[2].read()


def test_files_that_cannot_be_split_are_refused(tmp_path: Path) -> None:
    samples, outputs = both(tmp_path)
    with pytest.raises(DataFileError, match=r"x\*\.jsonl: no file matches"):
        sharded_sources(f"{tmp_path}/x*.jsonl", outputs)
    with pytest.raises(DataFileError, match="no such file"):
        sharded_sources(tmp_path / "nothing.jsonl", outputs)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFileError, match="no file in this directory ends in"):
        sharded_sources(tmp_path / "empty", outputs)
    (tmp_path / "e.jsonl").write_text("\n \n")
    with pytest.raises(DataFileError, match=r"e\.jsonl: there is no sample in it"):
        sharded_sources(tmp_path / "e.jsonl", outputs)
    with pytest.raises(DataFileError, match=r"e\.jsonl: there is no output in it"):
        sharded_sources(samples, tmp_path / "e.jsonl")
    assert sharded_sources([tmp_path / "e.jsonl", samples], outputs).total == 30  # an empty part among others
    (tmp_path / "r.jsonl").write_text('{"user_input": "?", "response": "a", "id": "r1"}')
    with pytest.raises(BadValueError, match=r"s\.jsonl is jsonl and .*r\.jsonl is ragas: all samples must be in one"):
        sharded_sources([samples, tmp_path / "r.jsonl"], outputs)
    (tmp_path / "r.csv").write_text("user_input,response\n?,a\n")
    with pytest.raises(BadValueError, match="cannot be split into ranges: only files with one JSON object per line"):
        sharded_sources(tmp_path / "r.csv")
    save_jsonl_outputs([("other", output(["a"]))], tmp_path / "p.jsonl")
    with pytest.raises(BadValueError, match="no sample and output share an id: the first sample is 'q0'"):
        sharded_sources(samples, tmp_path / "p.jsonl")
    with pytest.raises(BadValueError, match="batch_size must be an integer"):
        sharded_sources(samples, outputs, batch_size=0)
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(samples.read_bytes())[:-20])
    with pytest.raises(DataFileError, match="the compressed data ends too early"):
        sharded_sources(tmp_path / "cut.jsonl.gz", outputs)
    (tmp_path / "squeezed.jsonl").write_bytes(gzip.compress(samples.read_bytes()))
    for named in (None, "jsonl"):
        with pytest.raises(DataFileError, match=r"is compressed with gzip; give it a name that ends in '\.gz'"):
            sharded_sources(tmp_path / "squeezed.jsonl", outputs, dataset_format=named)
    (tmp_path / "s.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(DataFileError, match="Parquet files compress what they hold themselves"):
        sharded_sources(tmp_path / "s.parquet.gz", outputs)
    with pytest.raises(BadValueError, match="'beir', which is not split"):
        sharded_sources(samples, outputs, dataset_format="beir")


@pytest.mark.slow
def test_row_groups_of_any_size(tmp_path: Path) -> None:
    """Some empty, some smaller and some larger than a batch."""
    requirements.need("pyarrow")
    from pyarrow import parquet

    given = rows(100, missing=False)
    named = write_shards(tmp_path, given, [], [], ".parquet")
    for name in ("samples-0", "outputs-0"):
        table = parquet.read_table(tmp_path / f"{name}.parquet")
        with parquet.ParquetWriter(tmp_path / f"{name}.parquet", table.schema) as writer:
            start = 0
            for size in (0, 3, 2, 0, 0, 40, 1, 54, 0):
                writer.write_table(table.slice(start, size), row_group_size=100)
                start += size
    for size in (1, 4, 10, 64):
        sharded = sharded_sources(*named, batch_size=size)
        assert max(one.size for one in sharded.sources) <= size
        assert evaluate_sources(sharded.sources, METRICS, slices="labels.lang") == from_lists(100, missing=False)


def test_parquet_and_jsonl_go_together(tmp_path: Path) -> None:
    requirements.need("pyarrow")
    given = rows(50)
    save_parquet_dataset(given[0], tmp_path / "s.parquet")
    _, answers = write_shards(tmp_path, given, [], [13])
    assert scored(tmp_path / "s.parquet", answers, batch_size=8) == evaluate(*given, METRICS, slices="labels.lang")
