"""Marks, ranks and curves of gold that is matched by document, by span, by text, or in groups."""

import base64
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.conventions import Conventions, Match
from auepora_eval.engine.gold_match import MatchChoice
from auepora_eval.labels.items import build_item
from auepora_eval.queries.view import GoldMarks
from auepora_eval.render.blocks import DefinitionList
from auepora_eval.report.browser.listing import build_browser
from auepora_eval.report.browser.query_json import output_json
from auepora_eval.report.pages import run_verdict
from auepora_eval.report.run_sections import StoredRun, provenance_section
from auepora_eval.report.score_sections import coverage_notes, curves_of_runs, cut_offs, retrieval_curves
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore

Call = Callable[..., tuple[int, str, str]]

GUIDE = (
    "a parcel that arrives late is paid back in full within ten days of the first complaint "
    "and nobody has to send a letter or call the office about it because the system sees the delay itself"
)
MIDDLE = GUIDE.index("within")
FIRST = Document("guide#0", GUIDE[:MIDDLE], parent_id="guide", span=(0, MIDDLE))
SECOND = Document("guide#1", GUIDE[MIDDLE:], parent_id="guide", span=(MIDDLE, len(GUIDE)))
COPY = Document("copy#0", GUIDE[:MIDDLE], parent_id="copy")
OTHER = Document("terms#0", "the terms of use are in the shop", parent_id="terms", span=(0, 32))
REUSED = Document("gold", "the price of a voucher is printed on it", parent_id="terms", span=(33, 72))
START = GUIDE.index("arrives")
END = GUIDE.index("days") + len("days")
BY_DOCUMENT = Document("guide")
BY_SPAN = Document("gold", GUIDE[START:END], parent_id="guide", span=(START, END))
BY_TEXT = Document("gold", GUIDE[START:END])


def asked(*gold: Document, groups: Sequence[Sequence[str]] = (), name: str = "q") -> EvaluationSample:
    sample = EvaluationSample(name, "how?", relevant_docs=list(gold), reference_answer=Response("yes"))
    sample.relevant_groups = [list(ids) for ids in groups]
    return sample


def returned(*documents: Document) -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(doc, 1.0 / n, n) for n, doc in enumerate(documents, 1)], Response("yes"))


MARKS: dict[str, tuple[Match, EvaluationSample, list[Document], list[str], dict[str, int]]] = {
    "every chunk of a gold document is gold, and it is found at the first": (
        "parent",
        asked(BY_DOCUMENT),
        [OTHER, FIRST, SECOND],
        ["", "gold by document", "gold by document"],
        {"guide": 2},
    ),
    "a whole document has the id of the gold": (
        "parent",
        asked(BY_DOCUMENT),
        [OTHER, Document("guide", GUIDE)],
        ["", "gold"],
        {"guide": 2},
    ),
    "all gold of one document is found with it": (
        "parent",
        asked(Document("x", parent_id="guide"), Document("y", parent_id="guide")),
        [SECOND],
        ["gold by document"],
        {"x": 1, "y": 1},
    ),
    "a chunk that is returned again is no second hit": (
        "parent",
        asked(BY_DOCUMENT),
        [FIRST, FIRST],
        ["gold by document", "part"],
        {"guide": 1},
    ),
    "a chunk with enough of a span is gold, another of its document a part": (
        "span",
        asked(BY_SPAN),
        [SECOND, FIRST],
        ["part", "gold by span"],
        {"gold": 2},
    ),
    "the id of the gold with another span is not gold": ("span", asked(BY_SPAN), [REUSED], ["part"], {}),
    "a chunk with enough of a text is gold": (
        "text",
        asked(BY_TEXT),
        [OTHER, FIRST],
        ["", "gold by text"],
        {"gold": 2},
    ),
    "so is a copy, if the gold does not say where it is from": (
        "text",
        asked(BY_TEXT),
        [COPY, FIRST],
        ["gold by text", "gold by text"],
        {"gold": 1},
    ),
    "the same text in a document that is known to be another is not gold": (
        "text",
        asked(BY_SPAN),
        [COPY, FIRST],
        ["", "gold by text"],
        {"gold": 2},
    ),
    "gold without a text of ten words is found by its id": (
        "text",
        asked(BY_TEXT, Document("terms#0", "the terms")),
        [OTHER],
        ["gold"],
        {"terms#0": 1},
    ),
    "gold that contains the same fact is found at the first of it": (
        "id",
        asked(Document("a"), Document("b"), Document("c"), groups=[["a", "b"]]),
        [OTHER, Document("b"), Document("a")],
        ["", "gold", "gold"],
        {"a": 2, "b": 2},
    ),
    "by id, spans decide where no id is returned": (
        "id",
        asked(BY_SPAN),
        [FIRST, SECOND],
        ["gold by span", "part"],
        {"gold": 1},
    ),
}


@pytest.mark.parametrize(("match", "sample", "documents", "marks", "ranks"), MARKS.values(), ids=MARKS)
def test_marks_and_ranks(
    match: Match, sample: EvaluationSample, documents: list[Document], marks: list[str], ranks: dict[str, int]
) -> None:
    gold = GoldMarks(sample, match)
    shown = [f"{mark} {hit.how}".strip() for mark, hit in gold.explained_marks(documents)]
    assert shown == marks
    assert gold.gold_ranks(documents) == ranks
    assert gold.first_rank(documents) == min(ranks.values(), default=None)
    packed = json.loads(output_json(returned(*documents), gold, lambda text: 0))
    assert [doc[9] if len(doc) > 9 else "" for doc in packed["docs"]] == [one.partition(" ")[2] for one in marks]
    assert packed.get("by_span", {}).items() <= ranks.items()


def test_levels_are_those_of_matched_gold() -> None:
    graded = Document("guide", metadata={"relevance": 3})
    marks = GoldMarks(asked(graded), "parent").explained_marks([OTHER, FIRST, SECOND])
    assert [hit.level for _, hit in marks] == [None, 3, 3]


LABELLED: dict[str, tuple[Match, EvaluationSample, list[Document], list[tuple[str, int | None, bool]]]] = {
    "chunks of the gold document stand for it": (
        "parent",
        asked(BY_DOCUMENT),
        [OTHER, FIRST],
        [("terms#0", 1, False), ("guide#0", 2, True)],
    ),
    "gold that was not found is listed": (
        "text",
        asked(BY_TEXT),
        [OTHER],
        [("terms#0", 1, False), ("gold", None, True)],
    ),
    "the gold's id with another text is not relevant": (
        "text",
        asked(BY_TEXT),
        [REUSED],
        [("gold", 1, False), ("gold", None, True)],
    ),
}


@pytest.mark.parametrize(("match", "sample", "documents", "shown"), LABELLED.values(), ids=LABELLED)
def test_annotators_see_gold_as_the_run_matches_it(
    match: Match, sample: EvaluationSample, documents: list[Document], shown: list[tuple[str, int | None, bool]]
) -> None:
    item = build_item(sample, returned(*documents), match=match)
    assert [(one.doc_id, one.rank, one.gold) for one in item.evidence] == shown


# --- stored runs ------------------------------------------------------------------------------------------------------

METRICS = ["recall@1", "recall@2", "precision@2", "ndcg@2", "hit_rate@2", "mrr", "token_f1"]
RETURNED = {"hit": [FIRST, SECOND], "below": [OTHER, FIRST], "late": [SECOND, FIRST], "lost": [OTHER]}
GOLD: dict[Match, Document] = {"parent": BY_DOCUMENT, "span": BY_SPAN, "text": BY_TEXT}
FIRST_RANKS: dict[Match, list[float]] = {
    "parent": [1, 2, 1, np.inf],
    "span": [1, 2, 2, np.inf],
    "text": [1, 2, 2, np.inf],
}


def put(store: RunStore, kind: Match, name: str = "run", match: MatchChoice | None = None) -> RunRecord:
    samples = [asked(GOLD[kind], name=one) for one in RETURNED]
    rules = Conventions.of("auepora", match="id" if match else kind)

    def system(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return returned(*RETURNED[sample.sample_id])

    return run_system(system, samples, METRICS, store=store, name=name, conventions=rules, match=match).record


@pytest.mark.parametrize("match", GOLD)
def test_curves_and_cut_offs_agree_with_results(match: Match, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = put(store, match)
        results = {one.name: one for one in store.results(record.run_id)}
        found = retrieval_curves(StoredRun(store, record))
        assert found.first_hit.tolist() == FIRST_RANKS[match]
        for name in METRICS[:5]:
            family, _, k = name.partition("@")
            (value,) = [point["value"] for point in found.curves[family] if point["k"] == int(k)]
            assert value == results[name].value, name
        rules = Conventions.of("auepora", match=match)
        for position, row in enumerate(store.outputs(record.run_id)):
            values = cut_offs(store.samples(record.run_id)[position], row.output, 2, rules)
            scores = [results[name].scores for name in ("recall@1", "recall@2")]
            assert [one.recall for one in values] == [column[position] for column in scores if column is not None]
        below = [sample.sample_id for sample in store.samples(record.run_id)].index("below")
        row = next(iter(store.outputs(record.run_id, repeat=0, position=below)))
        item = build_item(store.samples(record.run_id)[below], row.output, match=match)
        assert [one.gold for one in item.evidence] == [False, True]


@pytest.mark.parametrize("match", GOLD)
def test_browser_reads_the_texts_that_matching_needs(match: Match, tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        blocks = {name: text for name, _, text in build_browser(store, [put(store, match)]).data}
    queries = json.loads(gzip.decompress(base64.b64decode(blocks["qb-queries-0"])))
    ranks = []
    for query in queries:
        (_, (output,), _) = query["runs"][0]
        marks = [doc[3] if len(doc) > 3 else "" for doc in output["docs"]]
        ranks.append(marks.index("gold") + 1 if "gold" in marks else np.inf)
    assert ranks == FIRST_RANKS[match]


def test_curves_of_several_runs_are_by_the_coarsest_way(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        runs = [StoredRun(store, put(store, match, name=match)) for match in ("span", "parent")]
        both = [found.first_hit.tolist() for found in curves_of_runs(runs)]
    assert both == [FIRST_RANKS["parent"], FIRST_RANKS["parent"]]


def test_report_shows_how_gold_is_matched(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        run = StoredRun(store, put(store, "parent", match="auto"))
        sentence = "gold is matched by document: 3 of 4 gold ids are parents of retrieved chunks; chance level .75"
        assert run.gold_notes[0] == sentence
        assert "hardly distinguishes" in run.gold_notes[1]
        points = run_verdict(run, None).points
        assert f"G{sentence[1:]}." in points
        facts = provenance_section([run]).blocks[0]
        assert isinstance(facts, DefinitionList)
        assert ("gold", sentence) in facts.pairs
        recall = run.find_result("recall@2")
        assert recall is not None
        assert any("chance level" in note for note in coverage_notes(recall))
        explicit = StoredRun(store, put(store, "span"))
        assert explicit.gold_notes == ["gold is matched by span"]


def test_show_marks_gold_as_the_run_matches_it(tmp_path: Path, auepora: Call) -> None:
    where = ("--store", str(tmp_path / "runs.sqlite"))
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        put(store, "parent")
        grouped = asked(Document("terms#0"), Document("b"), groups=[["b", "terms#0"]])
        run_system(lambda sample, *, top_k: returned(FIRST, OTHER), [grouped], ["mrr"], store=store, name="grouped")
    code, out, _ = auepora("show", "run", "--sample", "below", *where)
    assert code == 0
    assert ["2", "*", "by", "document", "guide#0"] in [line.split()[:5] for line in out.splitlines()]
    code, out, _ = auepora("show", "run", "--sample", "lost", "--json", *where)
    assert json.loads(out)["gold_ranks"] == [[{"doc_id": "guide", "rank": None, "by": None}]]
    code, out, _ = auepora("show", "grouped", "--sample", "q", *where)
    assert ["same", "fact", "b,", "terms#0"] in [line.split() for line in out.splitlines()]
    assert ["2", "*", "terms#0"] in [line.split()[:3] for line in out.splitlines()]
