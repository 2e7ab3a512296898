"""A corpus: lookup by id, reading on demand, documents shared while they are in use."""

import gc
import gzip
import json
import pickle
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from auepora_eval import metric
from auepora_eval.core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, AueporaWarning, DataFileError, DuplicateIdError
from auepora_eval.io.corpus import Corpus, with_texts
from auepora_eval.io.join import load_dataset, load_outputs
from auepora_eval.io.jsonl import save_jsonl_dataset, save_jsonl_outputs
from auepora_eval.io.problems import Problems

LINES = b"""\
{"doc_id": "a", "text": "Alpha"}

{"_id": "b", "title": "B", "text": "Beta", "metadata": {"lang": "el", "relevance": 9}, "url": "ignored"}
{"doc_id": "c", "text": "Gamma \xc3\xa9", "parent_id": "p", "span": [3, 10]}
{"_id": "d", "title": "Only a title", "text": ""}
"""
WANT = {
    "a": Document("a", "Alpha"),
    "b": Document("b", "B\nBeta", {"lang": "el", "title": "B"}),
    "c": Document("c", "Gamma é", {}, "p", (3, 10)),
    "d": Document("d", "Only a title", {"title": "Only a title"}),
}


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


CONTENTS = [  # content, why
    (LINES, "plain"),
    (LINES.strip(), "no line end at the end"),
    (LINES.replace(b"\n", b"\r\n"), "Windows line ends"),
    (b"\xef\xbb\xbf" + LINES, "byte order mark"),
    (b"\xef\xbb\xbf\n" + LINES, "byte order mark on a line of its own"),
]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("content", "why"), CONTENTS, ids=[row[-1] for row in CONTENTS])
def test_lookup_of_every_document(tmp_path: Path, content: bytes, suffix: str, why: str) -> None:
    path = write_file(tmp_path / f"corpus.jsonl{suffix}", gzip.compress(content) if suffix else content)
    with Corpus.open(path) as corpus:
        assert {doc_id: corpus[doc_id] for doc_id in reversed(list(corpus))} == WANT, why
        assert list(corpus.ids) == list(WANT)
        assert len(corpus) == 4
        assert "a" in corpus
        assert "z" not in corpus
        assert corpus.get("z") is None
        note = f"{path} is compressed: its 4 documents are kept in memory" if suffix else None
        assert corpus.note == note


def test_document_is_shared_while_in_use(tmp_path: Path) -> None:
    corpus = Corpus.open(write_file(tmp_path / "corpus.jsonl", LINES))
    first = corpus["a"]
    assert corpus["a"] is first
    gold = corpus.complete(Document("a", metadata={"relevance": 2}))
    assert gold == Document("a", "Alpha", {"relevance": 2})
    assert gold is not None
    text = gold.text
    del first
    gc.collect()
    assert corpus["a"].text is text  # kept alive by the document that has its text
    del gold
    gc.collect()
    assert not corpus._alive


def test_gold_document_can_be_pickled(tmp_path: Path) -> None:
    with Corpus.open(write_file(tmp_path / "corpus.jsonl", LINES)) as corpus:
        gold = corpus.complete(Document("b", metadata={"relevance": 2}))
    assert pickle.loads(pickle.dumps(gold)) == gold
    assert gold == Document("b", "B\nBeta", {"lang": "el", "title": "B", "relevance": 2})


def test_texts_for_samples_and_outputs(tmp_path: Path) -> None:
    sample = EvaluationSample("1", "q", [Document("a", metadata={"relevance": 2})], [Document("c"), Document("a", "x")])
    output = SystemOutputs(
        [RetrievedDocument(Document("c", span=(0, 1)), 0.5, 1), RetrievedDocument(Document("a"), None, 2)]
    )
    with Corpus.open(write_file(tmp_path / "corpus.jsonl", LINES)) as corpus:
        [filled] = with_texts([sample], corpus)
        [found] = with_texts(iter([output]), corpus)
        none = with_texts([EvaluationSample("2", "q")], corpus)
    assert filled.relevant_docs == [Document("a", "Alpha", {"relevance": 2})]
    assert filled.candidate_docs == [WANT["c"], Document("a", "x")]
    assert [item.doc for item in found.retrieved] == [Document("c", "Gamma é", {}, "p", (0, 1)), WANT["a"]]
    assert [(item.score, item.rank) for item in found.retrieved] == [(0.5, 1), (None, 2)]
    assert none == [EvaluationSample("2", "q")]
    assert sample.relevant_docs == [Document("a", metadata={"relevance": 2})]  # as it was


def test_gold_documents_share_only_their_text(tmp_path: Path) -> None:
    samples = [EvaluationSample(str(n), "q", [Document("a", metadata={"relevance": n + 1})]) for n in range(9)]
    with Corpus.open(write_file(tmp_path / "corpus.jsonl", LINES)) as corpus:
        gold = [doc for sample in with_texts(samples, corpus) for doc in sample.relevant_docs or ()]
    assert len({id(doc.text) for doc in gold}) == 1
    assert [doc.metadata["relevance"] for doc in gold] == list(range(1, 10))


def test_unknown_documents_are_counted(tmp_path: Path) -> None:
    corpus = Corpus.open(write_file(tmp_path / "corpus.jsonl", LINES))
    outputs = [SystemOutputs([RetrievedDocument(Document(doc), None, 1) for doc in "axyzwa"])]
    with pytest.warns(AueporaWarning) as caught:
        filled = with_texts(outputs, corpus)
    assert [str(warning.message) for warning in caught] == [
        f"4 documents are not in the corpus {corpus.path} and stay without text: 'x', 'y', 'z' and 1 more"
    ]
    assert caught[0].filename == __file__
    assert [item.doc.text for item in filled[0].retrieved] == ["Alpha", "", "", "", "", "Alpha"]
    with pytest.warns(AueporaWarning, match="1 document is not in the corpus .* and stays without text: 'x'$"):
        with_texts([EvaluationSample("1", "q", [Document("x")])], corpus)
    corpus.close()


def test_loading_with_a_corpus(tmp_path: Path) -> None:
    path = write_file(tmp_path / "corpus.jsonl", LINES)
    save_jsonl_dataset([EvaluationSample("1", "q", [Document("a")])], tmp_path / "data.jsonl")
    save_jsonl_outputs({"1": SystemOutputs([RetrievedDocument(Document("b"), None, 1)])}, tmp_path / "out.jsonl")
    assert [doc.text for doc in next(iter(load_dataset(tmp_path / "data.jsonl", corpus=path))).relevant_docs or ()] == [
        "Alpha"
    ]
    assert load_outputs(tmp_path / "out.jsonl", corpus=str(path))["1"].retrieved[0].doc == WANT["b"]
    with Corpus.open(path) as corpus:
        first = load_outputs(tmp_path / "out.jsonl", corpus=corpus)["1"].retrieved[0].doc
        assert load_outputs(tmp_path / "out.jsonl", corpus=corpus)["1"].retrieved[0].doc is first
        assert metric("citation_coverage", corpus_ids=corpus.ids) == metric("citation_coverage", corpus_ids=list(WANT))
    save_jsonl_dataset([EvaluationSample("1", "q", [Document("x")])], tmp_path / "data.jsonl")
    with pytest.warns(AueporaWarning, match="'x'") as caught:
        load_dataset(tmp_path / "data.jsonl", corpus=path)
    assert caught[0].filename == __file__


BAD: list[tuple[bytes, str]] = [  # content, message after the path
    (b"", ": the file is empty; each line must be one document"),
    (b'{"text": "x"}', ":1: field 'doc_id' (or '_id') is missing"),
    (b'\n{"doc_id": "a"}', ":2: field 'text' is missing"),
    (b'{"doc_id": "", "text": "x"}', ":1: field 'doc_id' is empty; an id needs at least one character"),
    (b'{"_id": 7, "text": "x"}', ":1: field '_id' must be a string or null, not a number; ids are strings, so put it in quotes"),
    (b'{"doc_id": "a", "text": null}', ":1: field 'text' must be a string, not null"),
    (
        b'{"doc_id": "a", "text": "x", "span": [4, 3]}',
        ":1: field 'span' must be [start, end] with 0 <= start <= end",
    ),
    (b'{"doc_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}', ":2: doc_id 'a' occurs twice; each document may come once"),
    (b'{"doc_id": "a", "text": "\xe9"}', ":1: byte 0xe9 in column 26 is not valid UTF-8"),
    (b"[1]", ":1: each line must be one JSON object, not an array"),
    (b"[" * 100_000, ":1: each line must be one JSON object, not an array"),
    (b'{"doc_id": "a", "text": "x"', ":1: not valid JSON: the line ends too early (each line must hold one whole object)"),
    (gzip.compress(LINES), ": is compressed with gzip; give it a name that ends in '.gz'"),
    (LINES.decode().encode("utf-16"), ":1: the file is UTF-16; save it as UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD, ids=[row[-1][:60] for row in BAD])
def test_bad_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = write_file(tmp_path / "corpus.jsonl", content)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        Corpus.open(path)
    assert str(caught.value) == f"{path}{message}"


def test_all_problems_are_collected(tmp_path: Path) -> None:
    path = write_file(tmp_path / "corpus.jsonl", b'{}\n{"doc_id": "a", "text": "x"}\n{\n{"_id": "b", "text": "y"}\n')
    problems = Problems(collect_all=True)
    with Corpus.open(path, problems) as corpus:
        assert [problem.line for problem in problems.found] == [1, 3]
        assert [corpus[doc_id].text for doc_id in corpus] == ["x", "y"]
    with pytest.raises(DataFileError, match="no such file"):
        Corpus.open(tmp_path / "none.jsonl")


def test_changed_file_is_detected(tmp_path: Path) -> None:
    path = write_file(tmp_path / "corpus.jsonl", LINES)
    with Corpus.open(path) as corpus:
        write_file(path, b"\n\n" + LINES)
        with pytest.raises(DataFileError, match="has changed since it was opened; open the corpus again"):
            _ = corpus["a"]
    with Corpus.open(path) as corpus:
        path.unlink()
        with pytest.raises(DataFileError, match="cannot be read: No such file"):
            _ = corpus["a"]


def test_concurrent_lookups(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(300)]
    lines = [json.dumps({"doc_id": name, "text": f"text of {name}"}) for name in names]
    wrong: list[str] = []
    with Corpus.open(write_file(tmp_path / "corpus.jsonl", "\n".join(lines).encode())) as corpus:

        def ask() -> None:
            wrong.extend(name for name in names if corpus[name].text != f"text of {name}")

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@given(
    st.lists(
        st.sampled_from([LINES, b'{"doc_id": "q"', b', "text": "x"}', b"\xff", b"[", b"\n", b"\r", b'"']), max_size=8
    )
)
def test_random_files_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    path = write_file(tmp_path_factory.getbasetemp() / "fuzz.jsonl", b"".join(pieces))
    problem = str(path)
    try:
        with Corpus.open(path) as corpus:
            assert [corpus[doc_id].doc_id for doc_id in corpus] == list(corpus.ids)
    except AueporaError as error:
        problem = str(error)
    assert problem.startswith(str(path))


@pytest.mark.slow
def test_texts_are_not_copied(tmp_path: Path) -> None:
    # 4 MB of texts, named 50,000 times: copied into each place they would be 50 MB.
    size, documents, samples = 1_000, 4_000, 10_000
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f'{{"doc_id": "{n}", "text": "{n:0{size}d}"}}\n' for n in range(documents)))
    names = [str(number) for number in range(documents)]

    def bare(number: int) -> SystemOutputs:
        docs = [Document(names[(number * 7 + place * 1_009) % documents]) for place in range(5)]
        return SystemOutputs([RetrievedDocument(doc, None, rank) for rank, doc in enumerate(docs, 1)])

    outputs = [bare(number) for number in range(samples)]
    tracemalloc.start()
    try:
        with Corpus.open(path) as corpus:
            filled = with_texts(outputs, corpus)
            grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len({id(item.doc) for output in filled for item in output.retrieved}) == documents
    assert grown < 20_000_000  # the texts once, 50,000 positions, the index
