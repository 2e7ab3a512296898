"""Groups of gold documents with the same fact: one unit of gold each, shown in signatures by ``groups:yes``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import Document, EvaluationSample, SystemOutputs, evaluate, evaluate_stream, metric
from auepora_eval.core.batch import Batch
from auepora_eval.core.conventions import PRESETS, Conventions
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.registry import Spec
from auepora_eval.core.slices import parse_slices
from auepora_eval.core.types import RetrievedDocument
from auepora_eval.engine.evaluate import evaluate_sources, resolve_metrics
from auepora_eval.engine.executors import SerialExecutor
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.io.golden import dataset_fingerprint
from auepora_eval.metrics.ranking import RankingMetric
from auepora_eval.scale.checkpoint import CheckpointExecutor, manifest_for, open_checkpoint
from auepora_eval.store import RunStore
from helpers.builders import documents, output, sample
from helpers.requirements import examples, need

# --- values ----------------------------------------------------------------------------------------------------------

TWO = [["a", "b"], ["c"]]
SHARED = [["a", "b"], ["a", "c"]]
ERR = {"err@3": {"max_grade": 1}}
SECOND = 1 / math.log2(3)
"""The discount of the second position."""
ROWS: list[tuple[list[list[str]], str, str | dict[str, Any], float, str]] = [  # groups, ranking, metric, want, why
    (TWO, "bxc", "recall@1", 1 / 2, "a group is found by any of its documents"),
    (TWO, "bxc", "recall@3", 1, "two units, not three documents"),
    (TWO, "abx", "recall@3", 1 / 2, "the second document of a group adds nothing"),
    (TWO, "xyz", "recall@3", 0, "nothing was found"),
    (TWO, "bxc", "hit_rate@1", 1, "one unit is a hit"),
    (TWO, "xbc", "mrr", 1 / 2, "the rank of the first unit"),
    (TWO, "ca", "ndcg@3", 1, "both units at the first ranks"),
    (TWO, "bxc", "ndcg@3", 1.5 / (1 + SECOND), "units at ranks 1 and 3 of ideally 1 and 2"),
    (TWO, "abc", "ndcg@3", 1.5 / (1 + SECOND), "'b' is the unit of 'a' again, so that 'c' is second at rank 3"),
    (TWO, "bxc", "map", (1 + 2 / 3) / 2, "precision of units at ranks 1 and 3"),
    (TWO, "abc", "map", (1 + 2 / 3) / 2, "a repeated unit is no further hit"),
    (TWO, "bxc", "r_precision", 1 / 2, "two units: the first two ranks"),
    (TWO, "bxc", "rbp", 0.2 * (1 + 0.8**2), "patience .8 at ranks 1 and 3"),
    (TWO, "bxc", ERR, 1 / 2 + 1 / 4 / 3, "half of the readers stop at rank 1, a quarter at rank 3"),
    (TWO, "abx", "precision@3", 2 / 3, "precision counts documents: both contain the fact"),
    (TWO, "bxc", "f1@3", 4 / 5, "precision 2/3, recall 1"),
    (SHARED, "a", "recall@1", 1, "one document completes two units"),
    (SHARED, "a", "precision@1", 1, "it is one relevant document"),
    (SHARED, "a", "ndcg@2", 1, "positions 1 and 2: at most 1"),
    (SHARED, "a", "map", 1, "positions 1 and 2: at most 1"),
    (SHARED, "a", "mrr", 1, "the rank of the document"),
    (SHARED, "bc", "recall@1", 1 / 2, "the other documents complete one unit each"),
    (SHARED, "bc", "recall@2", 1, "the other documents complete one unit each"),
    (SHARED, "xa", "ndcg@3", (SECOND + 1 / 2) / (1 + SECOND), "positions 2 and 3"),
    ([["a", "b"]], "xc", "recall@2", 1 / 2, "a document in no group is a unit of its own"),
    ([["a", "b"], ["b", "a"], ["a", "a", "b"]], "a", "recall@1", 1 / 2, "the same group in other words counts once"),
    ([["a", "z"], ["y"]], "c", "recall@1", 1 / 3, "ids that are not relevant are no gold: 'a', 'b', 'c' remain"),
]


def rank_only(retrieved: Sequence[Document]) -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(doc, None, rank) for rank, doc in enumerate(retrieved, 1)])


def both_ways(spec: Any, gold: EvaluationSample, found: SystemOutputs) -> float | None:
    """The score of a sample, equal by the batch path and by the plain definition."""
    (result,) = evaluate([gold], [found], [spec])
    (built,) = resolve_metrics([spec])
    assert isinstance(built, RankingMetric)
    assert result.scores is not None
    assert result.scores[0] == built.reference(gold, found).value
    return result.scores[0]


@pytest.mark.parametrize(("groups", "ranking", "spec", "want", "why"), ROWS, ids=[f"{r[2]} {r[-1]}" for r in ROWS])
def test_values(groups: list[list[str]], ranking: str, spec: str | dict[str, Any], want: float, why: str) -> None:
    assert both_ways(spec, sample("abc", relevant_groups=groups), output(ranking)) == pytest.approx(want), why


LEVELS: list[tuple[str, dict[str, Any], float, str]] = [  # ranking, metric, want, why
    ("a", {"recall@1": {"min_relevance": 2}}, 1, "a unit has the highest level of its documents"),
    ("c", {"recall@1": {"min_relevance": 2}}, 0, "'c' is relevant, but not at this level"),
    ("a", {"recall@1": {}}, 1 / 2, "two units at level 1"),
    ("ca", {"ndcg@2": {"gain_scheme": "linear"}}, (1 + 2 * SECOND) / (2 + SECOND), "the unit of 'a' has gain 2"),
]


@pytest.mark.parametrize(("ranking", "spec", "want", "why"), LEVELS, ids=[row[-1] for row in LEVELS])
def test_levels(ranking: str, spec: dict[str, Any], want: float, why: str) -> None:
    gold = sample({"a": 1, "b": 2, "c": 1}, relevant_groups=TWO)
    assert both_ways(spec, gold, output(ranking)) == pytest.approx(want), why


FACT = "the river rhine flows from the alps through basel and cologne to the north sea"
OTHER = "the danube begins in the black forest and ends in a delta at the black sea coast"
AGAIN = "from its springs in the alps the rhine flows through basel strasbourg and cologne to rotterdam"
WAYS: list[tuple[str, list[Document], Document, str]] = [  # way, gold, retrieved, why
    (
        "parent",
        [Document("a", parent_id="p"), Document("b", parent_id="q"), Document("c", parent_id="r")],
        Document("x", parent_id="q"),
        "another chunk of a document of the group",
    ),
    (
        "span",
        [Document(name, parent_id=f"p{name}", span=(0, 100)) for name in "abc"],
        Document("x", parent_id="pb", span=(0, 60)),
        "a chunk that covers a passage of the group",
    ),
    (
        "text",
        [Document("a", FACT), Document("b", AGAIN), Document("c", OTHER)],
        Document("x", f"As is well known, {AGAIN}."),
        "a chunk that contains a text of the group",
    ),
]


@pytest.mark.parametrize(("way", "gold", "found", "why"), WAYS, ids=[row[0] for row in WAYS])
def test_ways_of_matching(way: str, gold: list[Document], found: Document, why: str) -> None:
    grouped = EvaluationSample("1", "?", gold, relevant_groups=TWO)
    assert both_ways({"recall@1": {"match": way}}, grouped, rank_only([found])) == 1 / 2, why
    alone = EvaluationSample("1", "?", gold)
    assert both_ways({"recall@1": {"match": way}}, alone, rank_only([found])) == pytest.approx(1 / 3), why


# --- the batch path and the plain definitions ------------------------------------------------------------------------

LETTERS = st.sampled_from("abcdef")
QUERIES = st.tuples(
    st.none() | st.dictionaries(LETTERS, st.integers(-1, 3), max_size=5),
    st.lists(st.lists(LETTERS, max_size=3), max_size=3),
    st.lists(LETTERS, max_size=7),
)
SPECS: list[str | dict[str, Any]] = [
    "recall@1", "recall@3", "hit_rate@2", "precision@2", "f1@3", "mrr", "mrr@2", "map", "map@2", "ndcg", "ndcg@2",
    {"ndcg@3": {"gain_scheme": "linear", "as": "linear"}}, "r_precision", "rbp", {"err": {"max_grade": 3}},
    {"err@2": {"max_grade": 4}},
]  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
@given(
    queries=st.lists(QUERIES, min_size=1, max_size=5),
    min_relevance=st.integers(1, 3),
    depth=st.none() | st.integers(1, 4),
    match=st.sampled_from(["id", "parent"]),
)
@settings(max_examples=examples(40), deadline=None)
def test_fast_equals_plain(preset: str, queries: list[Any], min_relevance: int, depth: int | None, match: str) -> None:
    rules: dict[str, Any] = {"conventions": preset, "min_relevance": min_relevance, "depth": depth}
    if preset == "auepora":
        rules["match"] = match
    samples = []
    outputs = []
    for number, (gold, groups, ranking) in enumerate(queries):
        samples.append(sample(gold, sample_id=str(number), relevant_groups=groups))
        if preset == "trec":  # which forbids repeated documents
            ranking = list(dict.fromkeys(ranking))  # noqa: PLW2901
        outputs.append(output(ranking))
    batch = Batch(samples, outputs)
    for spec in SPECS:
        named = (
            {spec: rules} if isinstance(spec, str) else {name: {**options, **rules} for name, options in spec.items()}
        )
        built = metric(named)
        assert isinstance(built, RankingMetric)
        scores = built.score(batch)
        for row, (gold, found) in enumerate(zip(samples, outputs, strict=True)):
            plain = built.reference(gold, found)
            value = None if plain.reason else plain.value
            assert scores[row] == value, (named, gold, found)
            assert value is None or 0 <= value <= 1 + 1e-12, (named, gold, found)


# --- signatures ------------------------------------------------------------------------------------------------------

METRICS: list[Spec] = ["recall@2", "ndcg@3", "bpref", {"quality_given_hit": {"base": "token_f1"}}, "token_f1"]
COUNTS_UNITS = ["recall@2", "ndcg@3", "quality_given_hit@5"]
SIZE = 4


@dataclass(frozen=True)
class Numbered:
    """Four samples of which only the last of some batches has groups."""

    start: int
    grouped: bool = True

    @property
    def size(self) -> int:
        return SIZE

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        samples: list[EvaluationSample] = []
        outputs: list[SystemOutputs | None] = []
        for number in range(self.start, self.start + SIZE):
            groups = TWO if self.grouped and number == 2 * SIZE - 1 else []
            labels = {"half": number % 2}
            samples.append(sample("abc", sample_id=str(number), answer="yes", labels=labels, relevant_groups=groups))
            outputs.append(output("bxc", answer="yes"))
        return samples, outputs


def in_batches(way: str, folder: Path, *, grouped: bool = True) -> Any:
    """The results of three batches, of which only the second has groups, evaluated in several ways."""
    sources = [Numbered(start, grouped) for start in range(0, 3 * SIZE, SIZE)]
    samples = [one for source in sources for one in source.read()[0]]
    outputs = [one for source in sources for one in source.read()[1]]
    slices = ["labels.half"]
    if way == "lists":
        return evaluate(samples, outputs, METRICS, slices=slices, batch_size=SIZE)
    if way == "processes":
        return evaluate(samples, outputs, METRICS, slices=slices, batch_size=SIZE, executor="processes", workers=2)
    if way == "stream":
        pairs = zip(samples, outputs, strict=True)
        return evaluate_stream(pairs, METRICS, slices=slices, batch_size=SIZE, keep_scores=False)
    if way == "repeats":
        return evaluate_repeats(samples, [lambda: outputs, lambda: outputs], METRICS, slices=slices, batch_size=SIZE)
    if way == "sources":
        return evaluate_sources(sources, METRICS, slices=slices)
    need("pyarrow")
    metrics = [one for one in resolve_metrics(METRICS) if isinstance(one, BatchMetric)]
    sizes = [source.size for source in sources]
    plan = manifest_for(
        sizes, metrics, parse_slices(slices), conventions=Conventions.of(), input_facts={"samples": 12}, unit_size=SIZE
    )
    for _ in range(2):  # the second time from the files alone
        executor = CheckpointExecutor(SerialExecutor(), folder, open_checkpoint(folder, plan))
        results = evaluate_sources(sources, METRICS, slices=slices, executor=executor)
    return results


ALL_WAYS = ("lists", "processes", "stream", "repeats", "sources", "checkpoint")


@pytest.mark.parametrize("way", ALL_WAYS)
def test_signatures(way: str, tmp_path: Path) -> None:
    results = in_batches(way, tmp_path)
    assert [one.name for one in results if "|groups:yes|" in (one.signature or "")] == COUNTS_UNITS
    for one in results:
        assert {part.signature for part in one.slices["labels.half"].values()} == {one.signature}
    plain = in_batches(way, tmp_path / "plain", grouped=False)
    assert not [one.name for one in plain if "groups" in (one.signature or "")], "data without groups"


# --- stored runs -----------------------------------------------------------------------------------------------------


def test_fingerprint_of_samples_without_groups_is_unchanged() -> None:
    plain = EvaluationSample("1", "?", documents("ab"))
    known = "c460e912"
    assert dataset_fingerprint([plain])[:8] == known
    assert dataset_fingerprint([EvaluationSample("1", "?", documents("ab"), relevant_groups=[["a", "b"]])])[:8] != known


def test_stored_samples_keep_groups(tmp_path: Path) -> None:
    samples = [sample("abc", sample_id="1", relevant_groups=TWO), sample("ab", sample_id="2", labels={"lang": "de"})]
    with RunStore.open(tmp_path / "runs.db") as store:
        record = store.create_run("r", samples, dataset_name="d", plan={})
        assert store.samples(record.run_id) == samples
