"""BEIR folders: which split is read, where texts come from, what is refused, what comes back."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response
from auepora_eval.errors import AueporaError, AueporaWarning, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.beir import save_beir
from auepora_eval.io.formats import guess_format
from auepora_eval.io.join import iter_samples, load_dataset
from auepora_eval.io.problems import Problems

CORPUS = """\
{"_id": "d1", "title": "Faust", "text": "A play."}
{"_id": "d2", "title": "", "text": "Another.", "metadata": {"year": 1774}}
{"_id": "d3", "text": "Nobody asks for it."}
"""
QUERIES = """\
{"_id": "q1", "text": "Who wrote it?", "metadata": {"source": "forum"}}
{"_id": "q2", "text": "When?"}
{"_id": "q3", "text": "In another split"}
"""
TEST = "query-id\tcorpus-id\tscore\nq2\td2\t2\nq1\td1\t1\nq1\td2\t0\nq2\td3\t-1\n"
DEV = "query-id\tcorpus-id\tscore\nq3\td1\t1\n"


def folder(path: Path, *, corpus: str = CORPUS, queries: str = QUERIES, suffix: str = "", **qrels: str) -> Path:
    (path / "qrels").mkdir(parents=True, exist_ok=True)
    parts = {
        "corpus.jsonl": corpus,
        "queries.jsonl": queries,
        **{f"qrels/{name}.tsv": text for name, text in qrels.items()},
    }
    for name, text in parts.items():
        data = text.encode(errors="surrogateescape")
        (path / f"{name}{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    return path


WANT = [
    EvaluationSample("q2", "When?", [Document("d2", "Another.", {"year": 1774, "relevance": 2})]),
    EvaluationSample(
        "q1",
        "Who wrote it?",
        [Document("d1", "Faust\nA play.", {"title": "Faust", "relevance": 1})],
        [Document("d2", "Another.", {"year": 1774})],
        metadata={"source": "forum"},
    ),
]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_folder_defaults_to_test_split(tmp_path: Path, suffix: str) -> None:
    path = folder(tmp_path / "toy", suffix=suffix, test=TEST, dev=DEV)
    dataset = load_dataset(path)
    assert dataset.name == "toy"
    assert list(dataset) == WANT


def test_texts_are_shared(tmp_path: Path) -> None:
    second, first = load_dataset(folder(tmp_path, test=TEST))
    assert second.relevant_docs is not None
    assert first.candidate_docs is not None
    assert second.relevant_docs[0].text is first.candidate_docs[0].text


SPLITS: list[tuple[dict[str, str], str, str]] = [  # splits, path within the folder, first query
    ({"test": TEST, "dev": DEV}, ".", "q2"),
    ({"test": TEST, "dev": DEV}, "qrels/dev.tsv", "q3"),
    ({"train": TEST, "dev": DEV}, ".", "q3"),
    ({"train": TEST, "other": DEV}, ".", "q2"),
    ({"other": DEV}, ".", "q3"),
]


@pytest.mark.parametrize(("splits", "name", "first"), SPLITS)
def test_split_selection(tmp_path: Path, splits: dict[str, str], name: str, first: str) -> None:
    folder(tmp_path, **splits)
    assert next(iter(load_dataset(tmp_path / name))).sample_id == first
    assert guess_format(tmp_path / name, "samples").name == "beir"


BAD: list[tuple[dict[str, str], str]] = [  # parts, message after the folder
    ({}, "/qrels: there is no file of judgements, such as 'test.tsv', in it"),
    ({"a": TEST, "b": DEV}, "/qrels: name one of the splits, such as '{path}/qrels/a.tsv'"),
    ({"test": "query-id\tcorpus-id\tscore\n"}, "/qrels/test.tsv: there is no judgement in it; each line must be query-id, corpus-id, score"),
    ({"test": "q1 0 d1 1"}, "/qrels/test.tsv:1: expected 3 columns with tabs between them (query-id, corpus-id, score), found 'q1 0 d1 1'"),
    ({"test": TEST + "q1\td1\t0.5\n"}, "/qrels/test.tsv:6: the score (column 3) must be an integer, found '0.5'"),
    ({"test": TEST + "q1\td1\t1_0\n"}, "/qrels/test.tsv:6: the score (column 3) must be an integer, found '1_0'"),
    ({"test": TEST + "q9\td1\t1\n"}, "/qrels/test.tsv:6: query 'q9' is not in queries.jsonl"),
    ({"test": TEST, "queries": QUERIES + QUERIES}, "/queries.jsonl:4: query 'q1' occurs twice; each id may come once"),
    ({"test": TEST, "queries": '{"_id": 1, "text": "x"}'}, "/queries.jsonl:1: field '_id' must be a string, not a number; ids are strings, so put it in quotes"),
    ({"test": TEST, "queries": '{"_id": "1"}'}, "/queries.jsonl:1: field 'text' is missing"),
    ({"test": TEST, "corpus": '{"_id": "1"}'}, "/corpus.jsonl:1: field 'text' is missing"),
    ({"test": "\udcff"}, "/qrels/test.tsv:1: byte 0xff is not valid UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), BAD, ids=[row[-1][:60] for row in BAD])
def test_bad_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, Any], message: str) -> None:
    monkeypatch.chdir(tmp_path)  # a relative path: messages shorten a long one
    folder(Path("data"), **parts)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_dataset(Path("data"))
    assert str(caught.value) == f"data{message.format(path='data')}"


def test_all_problems_are_reported(tmp_path: Path) -> None:
    folder(tmp_path, test=f"{TEST}q9\td1\t1\nq1\n", corpus=f"{{}}\n{CORPUS}", queries=f"{QUERIES}[]\n")
    problems = Problems(collect_all=True)
    samples = [read.sample for read in iter_samples(tmp_path, None, problems)]
    assert [(problem.path.name, problem.line) for problem in problems.found] == [
        ("test.tsv", 7),
        ("queries.jsonl", 4),
        ("corpus.jsonl", 1),
        ("test.tsv", 6),
    ]
    assert samples == WANT


def test_documents_missing_from_the_corpus(tmp_path: Path) -> None:
    folder(tmp_path, test="q1\tgone\t1\n")  # and without a header
    with pytest.warns(AueporaWarning, match="1 document is not in the corpus .* without text: 'gone'"):
        [sample] = load_dataset(tmp_path)
    assert sample.relevant_docs == [Document("gone", metadata={"relevance": 1})]


def test_missing_files(tmp_path: Path) -> None:
    folder(tmp_path, test=TEST)
    (tmp_path / "queries.jsonl").unlink()
    with pytest.raises(DataFileError, match=r"cannot tell in which format"):
        load_dataset(tmp_path)
    with pytest.raises(DataFileError, match=r"queries\.jsonl: no such file"):
        load_dataset(tmp_path, "beir")
    with pytest.raises(DataFileError, match=r"this looks like samples in the format 'beir', not like outputs"):
        guess_format(folder(tmp_path, test=TEST), "outputs")


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["new", "new/qrels/dev.tsv"])
def test_folder_round_trip(tmp_path: Path, name: str) -> None:
    for _ in range(2):  # the second time over the first
        save_beir(WANT, tmp_path / name)
        assert list(load_dataset(tmp_path / name)) == WANT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_chunk_round_trip(tmp_path: Path) -> None:
    chunk = Document("c", "text", {"relevance": 1, "title": "not in the text"}, "p", (2, 6))
    samples = [
        EvaluationSample("1", "q", [Document("c", metadata={"relevance": 1})]),
        EvaluationSample("2", "q", [chunk], labels={"lost": True}, reference_answer=Response("lost")),
    ]
    save_beir(samples, tmp_path / "new")
    first, second = load_dataset(tmp_path / "new")
    assert second == EvaluationSample("2", "q", [chunk])
    assert first == EvaluationSample("1", "q", [chunk])  # named by its id before, and now found


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    path = folder(tmp_path / "toy", test=TEST, dev=DEV)
    with pytest.raises(DataFileError, match=r"toy/qrels: already holds 'dev\.tsv'; name a new folder"):
        save_beir(WANT, path)
    (path / "qrels" / "dev.tsv").unlink()
    (path / "notes.txt").touch()
    with pytest.raises(DataFileError, match=r"toy: already holds 'notes\.txt'; name a new folder"):
        save_beir(WANT, path)
    with pytest.raises(DataFileError, match="is a file; a BEIR dataset is a folder"):
        save_beir(WANT, path / "notes.txt")
    with pytest.raises(DataFileError, match="name a folder, or the judgements of a split"):
        save_beir(WANT, path / "dev.tsv")


BAD_SAMPLES: list[tuple[list[EvaluationSample], str]] = [  # samples, message
    ([EvaluationSample("1", "q")], "sample '1' cannot be written: it has no judged document"),
    ([EvaluationSample("1\t", "q", [Document("d")])], "the id '1\\t' holds a tab or a line end"),
    ([EvaluationSample("1", "q", [Document("d", "a")], [Document("d", "b")])], "sample '1' cannot be written: its document 'd' is another"),
    ([EvaluationSample("1", "q", [Document("d")])] * 2, "sample_id '1' occurs twice"),
    ([EvaluationSample("1", "q", [Document("d")], metadata={"a": {1, 2}})], "field 'metadata.a' holds a value of type 'set'"),
]  # fmt: skip


@pytest.mark.parametrize(("samples", "message"), BAD_SAMPLES, ids=[row[-1] for row in BAD_SAMPLES])
def test_unwritable_values(tmp_path: Path, samples: list[EvaluationSample], message: str) -> None:
    with pytest.raises((BadValueError, DuplicateIdError)) as caught:
        save_beir([*WANT, *samples], tmp_path / "new")
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


text = st.text(st.characters(codec="utf-8"), max_size=8)
ids = text.filter(lambda given: given and not set(given) & set("\t\r\n"))


@st.composite
def datasets(draw: st.DrawFn) -> list[EvaluationSample]:
    corpus = {}
    for name in draw(st.lists(ids, min_size=1, max_size=4, unique=True)):
        title, body = draw(text), draw(text)
        kept = draw(
            st.dictionaries(text.filter(lambda key: key not in ("title", "relevance")), st.integers(0, 9), max_size=2)
        )
        joined = f"{title}\n{body}" if title and body else title or body
        corpus[name] = Document(name, joined, {**kept, "title": title} if title else kept)
    samples = []
    for name in draw(st.lists(ids, min_size=1, max_size=3, unique=True)):
        gold = draw(st.lists(st.sampled_from(sorted(corpus)), min_size=1, unique=True))
        relevant = [
            Document(doc, corpus[doc].text, {**corpus[doc].metadata, "relevance": draw(st.integers(1, 3))})
            for doc in gold
        ]
        candidates = [corpus[doc] for doc in corpus if doc not in gold] or None
        samples.append(
            EvaluationSample(
                name, draw(text), relevant, candidates, metadata=draw(st.dictionaries(text, text, max_size=2))
            )
        )
    return samples


@given(datasets())
def test_any_dataset_round_trip(tmp_path_factory: pytest.TempPathFactory, samples: list[EvaluationSample]) -> None:
    path = tmp_path_factory.getbasetemp() / "any-beir"
    save_beir(samples, path)
    assert [read.sample for read in iter_samples(path, "beir")] == samples


@given(st.lists(st.sampled_from([TEST, "q1\td1\t1", "\n", "\t", "\r", "\udcff", "q1\t", "x"]), max_size=6))
def test_random_judgements_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = folder(tmp_path_factory.getbasetemp() / "fuzz-beir", test="".join(pieces))
    problem = str(path)
    try:
        list(iter_samples(path))
    except AueporaWarning:  # an error here, as every warning
        pass
    except AueporaError as error:
        problem = str(error)
    assert problem.startswith(str(path))
