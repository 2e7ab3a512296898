"""Golden queries in YAML: what is read and as what, what is refused and on which line, what comes back."""

import gzip
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io import yaml_values
from auepora_eval.io.formats import guess_format
from auepora_eval.io.golden import save_golden
from auepora_eval.io.join import iter_samples, load_dataset
from auepora_eval.io.problems import Problems

FILE = """\
# a comment
version: 3
queries:
- id: 007
  query: Where is the key kept?
  expected_chunk_ids: [c1, c2]
  expected_doc_ids: [guide]
  must_contain: [under the mat, 2017, yes]
  forbidden: lost
  lang: no
  difficulty: 3
  spans:
    c1: {parent_id: guide, span: [0, 120]}
  labels: {scenario: typo}
  metadata: {since: 2024-05-01, weight: 0.5, tags: [a, null, true]}
- id: q2
  query: "Who will win?"
  expected_doc_ids: []
"""
WANT = [
    EvaluationSample(
        "007",
        "Where is the key kept?",
        [Document("c1", parent_id="guide", span=(0, 120)), Document("c2")],
        labels={"scenario": "typo", "lang": "no", "difficulty": 3},
        metadata={
            "since": "2024-05-01",
            "weight": 0.5,
            "tags": ["a", None, True],
            "expected_doc_ids": ["guide"],
            "must_contain": ["under the mat", "2017", "yes"],
            "forbidden": "lost",
        },
    ),
    EvaluationSample("q2", "Who will win?", metadata={"expected_doc_ids": []}),
]


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.fixture(params=["C", "Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of PyYAML's parsers is at work: there is not always one in C."""
    if request.param == "Python":
        monkeypatch.setattr(yaml, "__with_libyaml__", False)
    elif not yaml.__with_libyaml__:
        pytest.skip("PyYAML has no C parser here")
    return str(request.param)


@pytest.mark.usefixtures("parser")
def test_read_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "golden.yaml", FILE.encode())
    assert list(load_dataset(path)) == WANT
    assert [read.line for read in iter_samples(path)] == [4, 16]
    listed = "\n".join(FILE.splitlines()[3:])
    assert list(load_dataset(write_file(tmp_path / "list.yml", listed.encode()))) == WANT
    packed = gzip.compress(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert list(load_dataset(write_file(tmp_path / "golden.yaml.gz", packed))) == WANT


def test_merged_keys(tmp_path: Path) -> None:
    text = "- &base {id: a, query: q, lang: de}\n- {<<: *base, id: b}\n- {<<: [*base, {difficulty: easy}], id: c}\n"
    first, second, third = load_dataset(write_file(tmp_path / "a.yaml", text.encode()))
    assert second == EvaluationSample("b", "q", labels={"lang": "de"})
    assert third == EvaluationSample("c", "q", labels={"lang": "de", "difficulty": "easy"})
    assert first.sample_id == "a"


BAD: list[tuple[str, str]] = [  # the file, message after the path
    ("", ": the file is empty; it must be a list of queries"),
    ("# nothing", ": the file is empty; it must be a list of queries"),
    ("[]", ":1: the list of queries is empty"),
    ("word", ":1: the queries must be a list, not a single value"),
    ("version: 1", ":1: field 'queries' is missing; a file is a list of queries, or has one under 'queries'"),
    ("version: 1\nquery: []", ":2: unknown field 'query'; did you mean 'queries'?"),
    ("queries: {a: 1}", ":1: the queries must be a list, not an object"),
    ("- word", ":1: each query must be an object with 'id' and 'query', not a single value"),
    ("\n- id: a\n", ":2: field 'query' is missing"),
    ("- query: a\n", ":1: field 'id' is missing"),
    ("- id: a\n  query: [b]\n", ":2: field 'query' must be a string, not a list"),
    ("- id: a\n  query:\n", ":2: field 'query' must be a string, not null"),
    ("- id: ''\n  query: q\n", ":1: field 'id' is empty; an id needs at least one character"),
    ("- id: a\n  query: q\n  id: b\n", ":3: key 'id' is already on line 1; each may come once"),
    ("- id: a\n  query: q\n  metadata:\n    x: {y: 1, y: 2}\n", ":4: key 'y' is already on line 4; each may come once"),
    ("- {id: a, query: q}\n- {id: b, query: q}\n- {id: a, query: q}", ":3: sample_id 'a' is already on line 1; each id may come once"),
    ("- id: a\n  query: q\n  expected_chunks: [c]\n", ":3: unknown field 'expected_chunks'; did you mean 'expected_chunk_ids'?"),
    ("- id: a\n  query: q\n  zzz: 1\n", ":3: unknown field 'zzz'; known fields: id, query, expected_chunk_ids, expected_doc_ids, "
     "must_contain, forbidden, lang, difficulty, spans, labels, metadata; put keys of your own under 'labels' or 'metadata'"),
    ("- id: a\n  query: q\n  expected_doc_ids:\n",
     ":3: field 'expected_doc_ids' must be a list of ids, not null; write [] where nothing is expected, or leave the field out"),
    ("- id: a\n  query: q\n  expected_chunk_ids: c1\n", ":3: field 'expected_chunk_ids' must be a list of ids, not a single value"),
    ("- id: a\n  query: q\n  expected_chunk_ids:\n  - c1\n  - {id: c2}\n", ":5: field 'expected_chunk_ids[1]' must be a string, not an object"),
    ("- id: a\n  query: q\n  expected_chunk_ids: ['']\n", ":3: field 'expected_chunk_ids' has an empty id; an id needs at least one character"),
    ("- id: a\n  query: q\n  must_contain: {a: b}\n", ":3: field 'must_contain' must be a string, not an object"),
    ("- id: a\n  query: q\n  lang: de\n  labels: {lang: en}\n", ":3: field 'lang' is also under 'labels'; give it once"),
    ("- id: a\n  query: q\n  labels: [en]\n", ":3: field 'labels' must be an object, not a list"),
    ("- id: a\n  query: q\n  spans: {c: {span: [0, 1]}}\n", ":3: field 'spans' needs 'expected_chunk_ids', whose chunks it places"),
    ("- id: a\n  query: q\n  expected_chunk_ids: [b]\n  spans: {c: {span: [0, 1]}}\n",
     ":4: field 'spans' has 'c', which is not in 'expected_chunk_ids'"),
    ("- id: a\n  query: q\n  expected_chunk_ids: [b]\n  spans:\n    b: {span: [3, 1]}\n",
     ":5: field 'spans.b.span' must be [start, end] with 0 <= start <= end"),
    ("- id: a\n  query: q\n  expected_chunk_ids: [b]\n  spans:\n    b: [3, 1]\n",
     ":5: field 'spans.b' must be an object with 'parent_id' and 'span', not a list"),
    ("- id: a\n  query: q\n  expected_chunk_ids: [b]\n  spans: [b]\n", ":4: field 'spans' must be an object by chunk id, not a list"),
    ("- id: a\n  query: q\n  metadata: {a: .nan}\n", ":3: field 'metadata.a' is .nan; numbers must be finite"),
    ("- id: a\n  query: q\n  metadata: {a: !!set {b}}\n", ":3: field 'metadata.a' has the tag '!!set', which is not read"),
    ("- id: a\n  query: q\n  metadata: {a: !!int x}\n", ":3: field 'metadata.a': 'x' is not a number"),
    ("- id: a\n  query: q\n  metadata: {[a]: 1}\n", ":3: a key must be a string"),
    ("- id: a\n  query: q\n  <<: [1]\n", ":3: '<<' must name an object, or a list of them"),
    ("- id: a\n  query: q\n  metadata: &x {y: *x}\n", ":3: field 'metadata.y' contains itself"),
    ("- id: a\n  query: q\n  metadata: {k: !!python/object/apply:os.system [ls]}\n",
     ":3: field 'metadata.k' has the tag '!!python/object/apply:os.system', which is not read"),
    ("[" * 50_000, ": the values are nested too deeply"),
    (f"- id: a\n  query: q\n  metadata: {{n: {'9' * 5000}}}\n", f":3: field 'metadata.n': '{'9' * 77}...' is not a number"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"), BAD, ids=[f"{number} {row[-1][:50]}" for number, row in enumerate(BAD)]
)
@pytest.mark.usefixtures("parser")
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    path = write_file(tmp_path / "golden.yaml", content.encode())
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_dataset(path)
    assert str(caught.value) == f"{path}{message}"


def test_yaml_syntax_error_has_a_line(tmp_path: Path, parser: str) -> None:
    for content, line in [(b"- id: a\n- [\n", 3), (b"- id: a\n  query: \x07\n", 2), (b"- *a", 1), (b"a\n---\nb", 2)]:
        path = write_file(tmp_path / "golden.yaml", content)
        with pytest.raises(DataFileError) as caught:
            load_dataset(path)
        assert str(caught.value).startswith(f"{path}:{line}: not valid YAML: "), parser


def test_exponential_aliases(tmp_path: Path) -> None:
    laughs = "".join(f"  - &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))
    text = f"- id: a\n  query: q\n  metadata:\n   x:\n   - &l0 [ha]\n{laughs.replace('  - ', '   - ')}"
    with pytest.raises(DataFileError, match="aliases repeat too much"):
        load_dataset(write_file(tmp_path / "golden.yaml", text.encode()))


def test_all_invalid_queries_are_reported(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "golden.yaml", b"- id: a\n- {id: b, query: q}\n- id: c\n  query: q\n  x: 1\n- {id: b, query: r}\n"
    )
    problems = Problems(collect_all=True)
    assert [read.sample.sample_id for read in iter_samples(path, None, problems)] == ["b"]
    assert [problem.line for problem in problems.found] == [1, 5, 4 + 2]


def test_format_detection(tmp_path: Path) -> None:
    path = write_file(tmp_path / "golden.yml", FILE.encode())
    assert guess_format(path, "samples").name == "golden"
    with pytest.raises(DataFileError, match="this looks like samples"):
        guess_format(path, "outputs")


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["golden.yaml", "golden.yaml.gz", "golden.yaml.zst"])
def test_file_round_trip(tmp_path: Path, name: str) -> None:
    save_golden(WANT, tmp_path / name)
    assert list(load_dataset(tmp_path / name)) == WANT


def test_header_comment_explains_refusals(tmp_path: Path) -> None:
    save_golden(
        [EvaluationSample("1", "é: ü", [Document("no")], metadata={"expected_doc_ids": []})], tmp_path / "g.yaml"
    )
    comment, _, rest = (tmp_path / "g.yaml").read_text(encoding="utf-8").partition("version: 1\n")
    assert "[] means that nothing answers the query: the system should refuse" in comment
    assert rest == "queries:\n- id: '1'\n  query: 'é: ü'\n  expected_chunk_ids:\n  - 'no'\n  expected_doc_ids: []\n"


def test_dropped_fields(tmp_path: Path) -> None:
    sample = EvaluationSample("1", "q", [Document("a", "text", {"relevance": 1})], [Document("b")], Response("x"))
    save_golden([sample], tmp_path / "g.yaml")
    assert list(load_dataset(tmp_path / "g.yaml")) == [EvaluationSample("1", "q", [Document("a")])]


BAD_SAMPLES: list[tuple[EvaluationSample, str]] = [  # sample, message
    (EvaluationSample("1", "q", [Document("a", metadata={"relevance": 2})]), "sample '1' cannot be written: the relevance of 'a' is not 1"),
    (EvaluationSample("1", "q", metadata={"must_contain": [1]}), "field 'metadata.must_contain' must be a list of strings"),
    (EvaluationSample("1", "q", metadata={"expected_doc_ids": "a"}), "field 'metadata.expected_doc_ids' must be a list of strings"),
    (EvaluationSample("1", "q", metadata={"expected_doc_ids": [""]}), "field 'metadata.expected_doc_ids' has an empty id"),
    (EvaluationSample("1", "q", metadata={"x": float("nan")}), "field 'metadata.x' is NaN"),
    (EvaluationSample("1", "q", [Document("a"), Document("a", span=(0, 1))]), "'a' occurs twice, in different places"),
    (WANT[1], "sample_id 'q2' occurs twice"),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "message"), BAD_SAMPLES, ids=[row[-1] for row in BAD_SAMPLES])
def test_unwritable_values(tmp_path: Path, sample: EvaluationSample, message: str) -> None:
    with pytest.raises((BadValueError, DuplicateIdError)) as caught:
        save_golden([*WANT, sample], tmp_path / "g.yaml")
    assert message in str(caught.value)
    with pytest.raises(BadValueError, match="there is no sample to write"):
        save_golden([], tmp_path / "g.yaml")
    assert list(tmp_path.iterdir()) == []


text = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["no", "1:30", "~", "- a", "#", "2024-05-01", " x"]
)
ids = text.filter(bool)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
chunks = st.lists(
    st.builds(
        Document,
        ids,
        parent_id=st.none() | ids,
        span=st.none() | st.tuples(st.integers(0, 9), st.integers(9, 99)),
    ),
    max_size=3,
    unique_by=lambda doc: doc.doc_id,
)
goldens = st.builds(
    EvaluationSample,
    ids,
    text,
    st.none() | chunks,
    labels=st.dictionaries(text, plain, max_size=2) | st.fixed_dictionaries({"lang": text, "difficulty": plain}),
    metadata=st.dictionaries(text, plain, max_size=2)
    | st.fixed_dictionaries(
        {"must_contain": text | st.lists(text), "expected_doc_ids": st.lists(ids), "forbidden": text}
    ),
)


@given(st.lists(goldens, min_size=1, max_size=3, unique_by=lambda sample: sample.sample_id))
def test_any_queries_round_trip(tmp_path_factory: pytest.TempPathFactory, samples: list[EvaluationSample]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    save_golden(samples, path)
    assert list(load_dataset(path)) == samples


@given(st.data())
def test_damaged_files_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(FILE.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(start, min(start + 5, len(content))))
        content[start:stop] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"- ", b": ", b"&a ", b"*a", b"<<: ", b"!!set "])
        )
    path = write_file(tmp_path_factory.getbasetemp() / "fuzz.yaml", bytes(content))
    problem = str(path)
    try:
        load_dataset(path)
    except AueporaError as error:
        problem = str(error)
    assert problem.startswith(str(path))


def test_yaml_tags_create_no_objects() -> None:
    root = yaml_values.parse_yaml(b"!!python/name:os.system")
    assert root is not None
    with pytest.raises(yaml_values.YamlError):
        yaml_values.YamlValues(10).value(root, "x")
