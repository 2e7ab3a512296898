"""How gold is matched: the rule of ``auto`` on what data contain, the counts over all samples, chance levels."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from auepora_eval import (
    AueporaEvaluator,
    Document,
    EvaluationSample,
    InMemoryDataset,
    Response,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
)
from auepora_eval.core.conventions import PRESETS, Conventions
from auepora_eval.core.registry import metric
from auepora_eval.engine import gold_match
from auepora_eval.engine.gold_match import GoldReading, MatchCounts, Pair, resolve_gold_match
from auepora_eval.errors import BadValueError, UnknownConventionError
from auepora_eval.render.tables import results_table
from helpers.suggestions import suggest_metrics

AUEPORA = Conventions.of()


def text(seed: int, words: int = 12) -> str:
    return " ".join(f"word{seed}x{number}" for number in range(words))


def chinese(seed: int, characters: int = 24) -> str:
    return "".join(chr(0x4E00 + seed * 40 + number) for number in range(characters))


def chunk(number: int, *, parent: bool = True, span: bool = False, words: str = "") -> Document:
    """The first chunk of document ``number``."""
    place = (0, 100) if span else None
    return Document(f"doc{number}#0", words, parent_id=f"doc{number}" if parent else None, span=place)


def pair(gold: Document | str, *retrieved: Document, name: str = "q") -> Pair:
    passage = Document(gold) if isinstance(gold, str) else gold
    ranking = [RetrievedDocument(doc, 1.0 / rank, rank) for rank, doc in enumerate(retrieved, 1)]
    return EvaluationSample(name, "?", relevant_docs=[passage]), SystemOutputs(ranking, Response("yes"))


def by_id(count: int, *, reused: int = 0) -> list[Pair]:
    """Gold ids among the retrieved ones, of which ``reused`` name another passage."""
    pairs = []
    for number in range(count):
        found = text(900 + number) if number < reused else text(number)
        pairs.append(pair(Document(f"c{number}", text(number)), Document(f"c{number}", found)))
    return pairs


def unsplit(whole: int, chunked: int) -> list[Pair]:
    """Gold names documents; some of them are returned whole, the others as chunks."""
    pairs = [pair(f"doc{number}", Document(f"doc{number}")) for number in range(whole)]
    return [*pairs, *(pair(f"doc{number}", chunk(number)) for number in range(whole, whole + chunked))]


def spans(*, common: bool = True) -> list[Pair]:
    gold = Document("gold", parent_id="doc1" if common else "doc2", span=(10, 90))
    return [pair(gold, chunk(1, span=True))]


def texts(gold_words: int, chunk_words: int = 12, *, parent: str | None = None) -> list[Pair]:
    return [pair(Document("doc1", text(1, gold_words), parent_id=parent), chunk(1, words=text(1, chunk_words)))]


RULES: list[tuple[str, Sequence[Pair], str]] = [  # the way, pairs, why
    ("id", by_id(3), "1: gold ids are retrieved ids"),
    ("id", [*by_id(1), pair("lost", Document("x"))], "1: a miss is no reason for another way"),
    ("id", by_id(40, reused=2), "1: 5 % of the ids in common name another passage"),
    ("text", by_id(40, reused=3), "1: more than 5 % do, so that texts are compared"),
    ("id", unsplit(57, 3), "1: ids are found as often as ids or parents, but for 5 %"),
    ("parent", unsplit(5, 55), "4: 5 of 60 documents were not split"),
    ("span", spans(), "2: both have spans, in a common document"),
    ("id", spans(common=False), "5: spans of different documents cannot be compared"),
    ("span", [*spans(), *texts(12)], "2: spans precede texts"),
    ("text", texts(12), "3: texts precede documents"),
    ("parent", texts(9), "4: fewer than ten words are no evidence"),
    ("text", texts(36), "3: the gold text is three times as long as a chunk"),
    ("parent", texts(37), "4: whole documents as gold text cannot be covered by chunks"),
    ("text", [pair(Document("g", chinese(1)), Document("c", chinese(1)))], "3: texts without spaces"),
    ("id", [pair(Document("g", chinese(1, 19)), Document("c", chinese(1)))], "5: too few characters, no parents"),
    ("parent", [pair("doc1", chunk(1))], "4: gold ids are parents of chunks"),
    ("parent", [pair(Document("old#7", parent_id="doc1"), chunk(1))], "4: chunks of the same document"),
    ("parent", [*texts(12), *unsplit(0, 9)], "4: texts on one of ten gold documents do not decide"),
    ("parent", [*spans(), *unsplit(0, 9)], "4: nor do spans"),
    ("id", [pair("other", Document("x"))], "5: nothing in common"),
    ("id", [], "5: no sample has gold and a ranking"),
]


@pytest.mark.parametrize(("way", "pairs", "why"), RULES, ids=[row[-1] for row in RULES])
def test_rule(way: str, pairs: Sequence[Pair], why: str) -> None:
    counts = MatchCounts()
    for sample, output in pairs:
        assert counts.add(sample, output)
    assert counts.choose() == way, why


def test_the_sentence_claims_only_what_was_counted() -> None:
    chosen = resolve_gold_match([pair("doc1", Document("doc1"))], AUEPORA, "span")
    assert chosen.sentence() == "gold is matched by span: 1 of 1 gold ids are ids of retrieved documents", "no spans"
    found = resolve_gold_match(spans(), AUEPORA)
    assert found.sentence().endswith("are ids of retrieved documents, and both have spans")


def test_metrics_that_match_in_their_own_way_keep_it() -> None:
    sample, output = pair("doc1", chunk(1))
    ready = metric("recall@5", conventions=Conventions.of(match="parent"))
    (result,) = evaluate([sample], [output], [ready])
    assert (result.value, result.signature) == (1.0, "recall@5|empty:skip|match:parent|v1")


def test_only_samples_with_gold_and_a_ranking_count() -> None:
    sample, output = pair("doc1", chunk(1))
    assert output is not None
    counts = MatchCounts(limit=1)
    ignored: list[tuple[EvaluationSample, SystemOutputs | None]] = [
        (EvaluationSample("no gold", "?"), output),
        (EvaluationSample("nothing relevant", "?", relevant_docs=[]), output),
        (sample, None),
        (sample, SystemOutputs([], Response("no ranking"))),
        (sample, SystemOutputs(output.retrieved, None, error="timeout")),
    ]
    assert not any(counts.add(*given) for given in ignored)
    assert counts.add(sample, output)
    assert counts.is_full
    assert not counts.add(sample, output), "the limit is reached"


def test_sentences_and_warnings() -> None:
    documents = [pair(f"doc{number}", chunk(number), name=str(number)) for number in range(4)]
    resolved = resolve_gold_match(documents, AUEPORA)
    assert resolved.sentence() == (
        "gold is matched by document: 4 of 4 gold ids are parents of retrieved chunks; chance level .00"
    )
    assert resolved.warnings() == []
    everywhere = [pair(f"doc{number % 2}", chunk(0), chunk(1), name=str(number)) for number in range(4)]
    (warning,) = resolve_gold_match(everywhere, AUEPORA).warnings()
    assert warning.startswith("matching by document hardly distinguishes retrievers here: recall@5 against the gold of")
    (warning,) = resolve_gold_match([pair("other", Document("x"))], AUEPORA).warnings()
    assert warning.startswith("none of 1 gold ids is an id or a parent of a retrieved document")
    short = [*spans(), pair(Document("", "three words only"), chunk(2, span=True))]
    (warning,) = resolve_gold_match(short, AUEPORA, "span").warnings()
    assert warning == "1 of 2 gold documents have no span and no id by which they could be found; they are left out"
    assert gold_match.GoldMatch.from_dict({**resolved.to_dict(), "later": 1}) == resolved


def test_conventions_that_compare_ids() -> None:
    pairs = [pair("doc1", chunk(1))]
    for name in ("trec", "paper", "paper-positives", "client"):
        assert resolve_gold_match(pairs, PRESETS[name]).match == "id"
        with pytest.raises(BadValueError, match="compare document ids"):
            resolve_gold_match(pairs, PRESETS[name], "parent")
    choice: Any = "sentence"
    with pytest.raises(UnknownConventionError, match="unknown way to match gold"):
        resolve_gold_match(pairs, AUEPORA, choice)


def read_few(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Let this many samples decide."""
    monkeypatch.setattr(MatchCounts.__init__, "__defaults__", (limit,))


def test_pairs_that_can_be_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_few(monkeypatch, 2)
    given = [pair(f"doc{number}", chunk(number), name=str(number)) for number in range(5)]
    stream = iter(given)
    reading = GoldReading(stream, AUEPORA, "auto")
    assert reading.resolved.samples == 2
    assert len(list(stream)) == 3, "the others are not read yet"
    stream = iter(given)
    assert list(GoldReading(stream, AUEPORA, "auto").pairs()) == given


def test_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    read_few(monkeypatch, 2)
    given = unsplit(2, 20)
    samples, outputs = columns(given)
    results = evaluate(samples, outputs, ["recall@5"], match="auto")
    (warning,) = results.warnings
    assert warning == (
        "the first 2 samples with gold decided to match it by id; over 22 it would be by document (2 of 22 gold ids "
        "are retrieved ids, 22 ids or parents); repeat with --match parent if that is right"
    )
    assert evaluate(samples, outputs, ["recall@5"], match="id").warnings == []
    assert evaluate(samples, outputs, ["recall@5"], match="parent").warnings == []
    assert evaluate(samples, outputs, ["token_f1"], match="auto").warnings == [], "no metric depends on it"


def test_stored_way_is_kept() -> None:
    resolved = resolve_gold_match([pair("doc1", chunk(1))], AUEPORA, "auto", stored="id")
    assert (resolved.match, resolved.is_auto, resolved.parents) == ("id", True, 1)


# --- evaluate ---------------------------------------------------------------------------------------------------------


def columns(pairs: Iterable[Pair]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    samples, outputs = [], []
    for number, (sample, output) in enumerate(pairs):
        samples.append(EvaluationSample(str(number), "?", relevant_docs=sample.relevant_docs))
        outputs.append(output)
    for sample in samples:
        sample.reference_answer = Response("yes")
    return samples, outputs


def test_evaluate() -> None:
    samples, outputs = columns(unsplit(0, 4))
    by_default = evaluate(samples, outputs, ["recall@5"])
    assert (by_default[0].value, by_default.gold_match) == (0.0, None)
    results = evaluate(samples, outputs, ["recall@5", metric("hit_rate@1"), "bpref"], match="auto")
    assert [result.value for result in results[:2]] == [1.0, 1.0]
    assert results[0].signature == "recall@5|empty:skip|match:parent|v1"
    assert results[2].details["skipped_match"] == 4
    assert results.gold_match is not None
    assert results.gold_match["match"] == "parent"
    assert results.gold_match["sentence"].startswith("gold is matched by document: 4 of 4 gold ids")
    assert results.to_dict()["gold_match"] == results.gold_match
    assert "gold_match" not in by_default.to_dict()
    assert evaluate(samples, outputs, ["recall@5"], match="id")[0].value == 0.0
    assert evaluate(samples, outputs, ["recall@5"], conventions=Conventions.of(match="parent"))[0].value == 1.0
    kept = evaluate(samples, outputs, [{"recall@5": {"match": "id"}}], match="parent")
    assert (kept[0].value, "chance" in kept[0].details) == (0.0, False), "a way of its own is kept"
    with pytest.raises(BadValueError, match="compare document ids"):
        evaluate(samples, outputs, ["recall@5"], conventions="trec", match="text")


def test_misses_count() -> None:
    lost = [pair(f"lost{number}", chunk(number)) for number in range(20)]
    samples, outputs = columns([*unsplit(0, 20), *lost])
    (result,) = evaluate(samples, outputs, ["recall@5"], match="auto")
    assert (result.value, result.details["num_samples"]) == (0.5, 40)


def test_chance_levels_of_numbers_by_document() -> None:
    pairs = [pair(f"doc{number}", chunk(number), chunk((number + 1) % 4)) for number in range(4)]
    samples, outputs = columns(pairs)
    results = evaluate(samples, outputs, ["recall@5", "mrr", "token_f1", "failure_attribution@5"], match="parent")
    chances = {result.name: result.details.get("chance") for result in results}
    assert chances == {"recall@5": 1.0, "mrr": 0.5, "token_f1": None, "failure_attribution@5": None}
    header, _, recall = results_table(results).splitlines()[:3]
    assert header.split()[-3:] == ["chance", "mean", "of"]
    assert recall.split()[-1] == "1.0000"
    assert "| chance level 0.50 |" in results.to_markdown()
    assert "chance" not in results_table(evaluate(samples, outputs, ["recall@5", "mrr"], match="id"))


def test_warning_about_ids_is_left_out_where_ids_are_not_compared() -> None:
    samples, outputs = columns(pair(f"wiki/doc{n}", Document(f"doc{n}", parent_id=f"wiki/doc{n}")) for n in range(6))
    assert any("prefix" in warning for warning in evaluate(samples, outputs, ["recall@5"]).warnings)
    assert evaluate(samples, outputs, ["recall@5"], match="parent").warnings == []


def test_suggested_metrics_have_a_value() -> None:
    samples, outputs = columns(unsplit(0, 4))
    by_default = suggest_metrics(samples, outputs)
    suggested = suggest_metrics(samples, outputs, conventions=Conventions.of(match="parent"))
    assert {"recall@5", "ndcg@10", "precision@5"} <= set(suggested)
    assert set(suggested) < set(by_default)
    for result in evaluate(samples, outputs, suggested, conventions=Conventions.of(match="parent")):
        assert "skipped_match" not in result.details, result.name


class Parts:
    """Returns a chunk of the gold document."""

    def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return SystemOutputs([RetrievedDocument(chunk(int(sample.sample_id)), 1.0, 1)], Response("yes"))


def test_evaluator() -> None:
    samples, _ = columns(unsplit(0, 3))
    dataset = InMemoryDataset("chunks", samples)
    (result,) = AueporaEvaluator(Parts(), ["recall@5"], match="auto").evaluate(dataset)
    assert result.value == 1.0
    (result,) = AueporaEvaluator(Parts(), ["recall@5"]).evaluate(dataset)
    assert result.value == 0.0
    (result,) = AueporaEvaluator(Parts(), ["recall@5"], conventions=Conventions.of(match="parent")).evaluate(dataset)
    assert result.value == 1.0
    with pytest.raises(BadValueError, match="compare document ids"):
        AueporaEvaluator(Parts(), ["recall@5"], conventions="client", match="parent")
