"""Faults in the questions and the documents: dropped topics, re-chunking, a changed corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.sample_sets import SampleSet
from redteam.planted import (
    Bench,
    Fault,
    Floats,
    FoundByVerify,
    Noted,
    Pair,
    Stopped,
    Unseen,
    answers,
    questions,
)

# --- dropped topics: hard questions are left out ---------------------------------------------------------------------

DROPPED = "dropped topics"


def _easiest(hardness: Floats, share: float) -> list[int]:
    """The places of the questions without the hardest share."""
    kept = len(hardness) - round(share * len(hardness))
    return sorted(np.argsort(-hardness)[:kept].tolist())


def _drop_from_b(
    n: int, share: float, metric: str, *, other_dataset: bool = False, loss: float = 0.0
) -> Callable[[Bench], Pair]:
    """B answers only the easier questions; with ``loss`` it is that much worse on the dropped ones."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        first, second = bench.strengths(hardness), bench.strengths(hardness)
        places = _easiest(hardness, share)
        dropped = np.setdiff1d(np.arange(n), places)
        second[dropped] *= 1 - loss
        outputs = answers(second)
        baseline = bench.put("a", samples, answers(first), [metric])
        run = bench.put("b", [samples[place] for place in places], [outputs[place] for place in places], [metric])
        return Pair(baseline, run, other_dataset=other_dataset)

    return plant


def _never_asked(n: int, share: float, metric: str, conventions: str | None = None) -> Callable[[Bench], Pair]:
    """B's outputs of the hardest questions are not stored."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        first, second = bench.strengths(hardness), bench.strengths(hardness, 0.2)
        places = set(_easiest(hardness, share))
        outputs = [output if place in places else None for place, output in enumerate(answers(second))]
        baseline = bench.put("a", samples, answers(first), [metric], conventions=conventions)
        return Pair(baseline, bench.put("b", samples, outputs, [metric], conventions=conventions))

    return plant


def _chosen_set(n: int, metric: str, by: str, *, is_named: bool) -> Callable[[Bench], Pair]:
    """Only the questions that one of the runs does well or badly on are compared; a saved filter names that run."""

    def plant(bench: Bench) -> Pair:
        samples, first, second, pair = bench.pair(n, metric)
        assert pair.baseline is not None
        order = np.argsort(-second) if by == "b" else np.argsort(first)
        chosen = tuple(samples[place].sample_id for place in sorted(order[: n // 2].tolist()))
        chosen_by = pair.run if by == "b" else pair.baseline
        named = (chosen_by.run_id,) if is_named else ()
        return replace(pair, samples=SampleSet("topics", chosen, "the topics that matter", runs=named))

    return plant


def _edited_questions(n: int, metric: str, change: str, *, other_dataset: bool = False) -> Callable[[Bench], Pair]:
    """The hardest third has other content in B's dataset, under the same ids."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        places = set(_easiest(hardness, 1 / 3))
        edited = []
        for place, sample in enumerate(samples):
            if place in places:
                edited.append(sample)
            elif change == "gold":
                edited.append(replace(sample, relevant_docs=[]))
            elif change == "reference":
                edited.append(replace(sample, reference_answer=Response("other0 other1")))
            else:
                edited.append(replace(sample, query=f"{sample.query} The answer is in document {place}."))
        first, second = bench.strengths(hardness), bench.strengths(hardness)
        if change == "query":
            easier = [place for place in range(n) if place not in places]
            second[easier] = 0.95
        baseline = bench.put("a", samples, answers(first), [metric])
        return Pair(baseline, bench.put("b", edited, answers(second), [metric]), other_dataset=other_dataset)

    return plant


def _without_topic_in_both(n: int, metric: str, share: float) -> Callable[[Bench], Pair]:
    """The hard questions were removed before either run; the gate is on a value."""

    def plant(bench: Bench) -> Pair:
        hardness = bench.hardness(n)
        places = _easiest(hardness, share)
        strengths = bench.strengths(hardness)
        samples, outputs = questions(n), answers(strengths)
        run = bench.put("b", [samples[place] for place in places], [outputs[place] for place in places], [metric])
        return Pair(None, run)

    return plant


def _dropped() -> Iterator[Fault]:
    refused = Stopped("refused", "ran on different datasets")
    for n, share, metric in ((200, 0.05, "recall@5"), (200, 0.2, "mrr"), (100, 0.3, "token_f1")):
        name = f"{share:.0%} of {n} hard questions left out of B, {metric}"
        why = "the fingerprint of the dataset has the content of all samples"
        yield Fault(DROPPED, name, (f"better({metric})",), _drop_from_b(n, share, metric), refused, why)
    yield Fault(
        DROPPED,
        "10% of 100 hard questions left out of B, not worse, mean_latency",
        ("not worse(mean_latency[end_to_end], by=0.05)",),
        _drop_from_b(100, 0.1, "mean_latency[end_to_end]"),
        refused,
        "the fingerprint of the dataset has the content of all samples",
    )
    for share, metric in ((0.1, "recall@5"), (0.3, "mrr"), (0.5, "token_f1")):
        yield Fault(
            DROPPED,
            f"{share:.0%} of 160 left out of B, --other-dataset, {metric}",
            (f"better({metric})",),
            _drop_from_b(160, share, metric, other_dataset=True),
            Stopped("inconclusive", "neither better nor worse for sure"),
            "only samples that both runs have are compared, so that leaving out the hard ones raises nothing",
        )
    yield Fault(
        DROPPED,
        "20% of 150 left out of B, which is worse on these only, --other-dataset, token_f1",
        ("not worse(token_f1, by=0.1)",),
        _drop_from_b(150, 0.2, "token_f1", other_dataset=True, loss=0.9),
        Noted("dataset: questions (150 queries) in A, questions (120 queries) in B"),
        "how B answers what it was not asked is in no data; the user switched the check off with --other-dataset",
    )
    for share, metric in ((0.1, "recall@5"),):
        yield Fault(
            DROPPED,
            f"outputs of {share:.0%} of 150 hard questions not stored in B, {metric}",
            (f"better({metric})",),
            _never_asked(150, share, metric),
            Stopped("failed", "below 0.95"),
            "a missing output counts at the worst value, and the implied gate on coverage fails",
        )
    yield Fault(
        DROPPED,
        "outputs of 30% of 150 hard questions not stored in B, convention trec, recall@5",
        ("better(recall@5)",),
        _never_asked(150, 0.3, "recall@5", "trec"),
        Stopped("inconclusive", "on 150 samples"),
        "a comparison counts missing outputs as failed, whatever the convention skips",
    )
    for by, metric in (("b", "recall@5"), ("a", "token_f1")):
        name = f"the better half of 200 by the outcomes of B, as a saved set, {metric}"
        if by == "a":
            name = f"the worse half of 200 by the outcomes of A, as a saved set, {metric}"
        yield Fault(
            DROPPED,
            name,
            (f"better({metric})",),
            _chosen_set(200, metric, by, is_named=True),
            Stopped("inconclusive", "selected by the outcomes"),
            "a saved set names the runs whose outcomes its filter read",
        )
    yield Fault(
        DROPPED,
        "the better half of 120 by the outcomes of B, as a list of ids, token_f1",
        ("better(token_f1)",),
        _chosen_set(120, "token_f1", "b", is_named=False),
        Noted("only the 60 samples of the set 'topics'", trials=3),
        "a list of ids does not say how somebody chose them; the set is named",
    )
    for change, metric in (("gold", "recall@5"), ("query", "recall@5")):
        yield Fault(
            DROPPED,
            f"the {change} of the hardest third of 150 edited in B's dataset, {metric}",
            (f"better({metric})",),
            _edited_questions(150, metric, change),
            refused,
            "the fingerprint of the dataset has the content of all samples",
        )
    yield Fault(
        DROPPED,
        "the query of the hardest third of 150 made easy in B's dataset, --other-dataset, token_f1",
        ("better(token_f1)",),
        _edited_questions(150, "token_f1", "query", other_dataset=True),
        Noted("dataset: questions (150 queries) in A, questions (150 queries) in B, with other content"),
        "whether an edited question is another question, only people know; the user asked for --other-dataset",
    )
    yield Fault(
        DROPPED,
        "25% of 200 hard questions removed before any run, gate on a value, recall@5",
        ("recall@5 >= 0.5",),
        _without_topic_in_both(200, "recall@5", 0.25),
        Unseen(trials=6),
        "there is no other dataset to compare with; a gate on a value takes the questions as they are",
    )


# --- re-chunking: the ids of chunks change ---------------------------------------------------------------------------

RECHUNKED = "re-chunking"
LENGTH, DOCUMENTS = 1200, 12


@cache
def _text(document: int) -> str:
    return "".join(f"d{document} {word:04} " for word in range(LENGTH))[:LENGTH]


def _chunks(
    document: int, size: int, *, parents: bool = True, spans: bool = True, texts: bool = True, prefix: str = ""
) -> list[Document]:
    """The chunks of a document, numbered."""
    found = []
    for number, start in enumerate(range(0, LENGTH, size)):
        end = min(start + size, LENGTH)
        parent = f"d{document}" if parents else None
        span = (start, end) if spans else None
        text = _text(document)[start:end] if texts else ""
        found.append(Document(f"{prefix}d{document}-{number}", text, parent_id=parent, span=span))
    return found


def _chunk_questions(n: int) -> list[EvaluationSample]:
    """Questions about a chunk of 200 characters, known by its id alone."""
    found = []
    for number in range(n):
        gold = Document(f"d{number % DOCUMENTS}-{2 + number % 3}")
        found.append(
            EvaluationSample(f"q{number:03}", f"what {number}?", relevant_docs=[gold], reference_answer=Response("yes"))
        )
    return found


def _chunk_outputs(n: int, size: int, hits: Sequence[bool] | None = None, **cut: object) -> list[SystemOutputs]:
    """The chunks around the passage, after a chunk of another document; a miss has chunks of other documents only."""
    outputs = []
    for number in range(n):
        start = 200 * (2 + number % 3)
        own = _chunks(number % DOCUMENTS, size, **cut)  # type: ignore[arg-type]
        other = _chunks((number + 1) % DOCUMENTS, size, **cut)  # type: ignore[arg-type]
        found = [other[0], *own[start // size : -(-(start + 200) // size)]]
        if hits is not None and not hits[number]:
            found = other[:3]
        retrieved = [RetrievedDocument(document, 1.0 / rank, rank) for rank, document in enumerate(found, 1)]
        outputs.append(SystemOutputs(retrieved, Response("yes")))
    return outputs


def _rechunk(n: int, size: int, metric: str, cut: dict[str, object]) -> Callable[[Bench], Pair]:
    """A misses half of the passages; B finds the same ones, in chunks of another size."""

    def plant(bench: Bench) -> Pair:
        samples = _chunk_questions(n)
        hits = (bench.rng.random(n) < 0.5).tolist()
        versions = cut.get("versions", ("", ""))
        assert isinstance(versions, tuple)
        configs = [{"chunker_version": version} for version in versions]
        how = {key: value for key, value in cut.items() if key != "versions"}
        baseline = bench.put("a", samples, _chunk_outputs(n, 200, hits), [metric], config=configs[0])
        outputs = _chunk_outputs(n, size, None, **how)
        return Pair(baseline, bench.put("b", samples, outputs, [metric], config=configs[1]))

    return plant


def _renamed_gold(n: int, share: float, metric: str, *, texts: bool) -> Callable[[Bench], Pair]:
    """In B's index a gold chunk and the chunk that a miss returns first have each other's id, for some documents."""

    def plant(bench: Bench) -> Pair:
        samples = _chunk_questions(n)
        hits = (bench.rng.random(n) < 0.4).tolist()
        first, second = (_chunk_outputs(n, 200, hits, texts=texts, spans=texts, parents=texts) for _ in "ab")
        names: dict[str, str] = {}
        for document in range(0, round(share * DOCUMENTS), 2):
            gold, missed = f"d{document}-{2 + document % 3}", f"d{document + 1}-0"
            names |= {gold: missed, missed: gold}
        for output in second:
            for hit in output.retrieved:
                hit.doc.doc_id = names.get(hit.doc.doc_id, hit.doc.doc_id)
        baseline = bench.put("a", samples, first, [metric])
        return Pair(baseline, bench.put("b", samples, second, [metric]))

    return plant


def _gold_id_on_any_passage(bench: Bench, *, places: bool = True) -> Pair:
    """B gives the id of the gold chunk to whatever it returns first: one id names several passages in one run."""
    samples = _chunk_questions(120)
    hits = (bench.rng.random(120) < 0.4).tolist()
    first, second = (_chunk_outputs(120, 200, hits, spans=places, parents=places) for _ in "ab")
    for sample, output in zip(samples[::2], second[::2], strict=True):
        assert sample.relevant_docs is not None
        document = output.retrieved[0].doc
        output.retrieved[0] = RetrievedDocument(replace(document, doc_id=sample.relevant_docs[0].doc_id), 1.0, 1)
    baseline = bench.put("a", samples, first, ["recall@5"])
    return Pair(baseline, bench.put("b", samples, second, ["recall@5"]))


def _rechunked() -> Iterator[Fault]:
    ids = "ids that both runs retrieved name another text or span in each"
    by_id: list[tuple[int, int, str, dict[str, object], str, str]] = [
        (60, 300, "recall@5", {}, ids, "texts and spans of the same ids differ"),
        (60, 300, "mrr", {"spans": False}, ids, "texts of the same ids differ"),
        (60, 400, "ndcg@10", {}, ids, "texts and spans of the same ids differ"),
        (60, 600, "precision@5", {"parents": False}, ids, "texts and spans of the same ids differ"),
        (60, 1200, "recall@5", {}, "another text or span in each", "a whole document has the id of its first chunk"),
        (36, 150, "hit_rate@5", {}, ids, "texts and spans of the same ids differ"),
        (60, 300, "ndcg@5", {"texts": False}, ids, "spans of the same ids differ"),
        (
            60,
            300,
            "recall@5",
            {"versions": ("1", "2"), "texts": False, "spans": False, "parents": False},
            "chunker_version 1 and 2",
            "both runs name their chunker",
        ),
    ]
    for n, size, metric, cut, words, why in by_id:
        lacks = ", ".join(key for key, value in cut.items() if value is False)
        known = f", without {lacks}" if lacks else ""
        versions = ", with chunker_version" if "versions" in cut else ""
        name = f"chunks of {size} in place of 200 under the same ids, {n} questions, {metric}{known}{versions}"
        plant = _rechunk(n, size, metric, cut)
        yield Fault(RECHUNKED, name, (f"better({metric})",), plant, Stopped("inconclusive", words), why)
    prefixes: list[tuple[int, str, str]] = [
        (300, "recall@5", "not worse(recall@5)"),
        (200, "mrr", "not worse(mrr, by=0.1)"),
    ]
    for size, metric, gate in prefixes:
        yield Fault(
            RECHUNKED,
            f"new ids for chunks of {size}, spans of hits known, {gate}",
            (gate,),
            _rechunk(60, size, metric, {"prefix": "new-"}),
            Stopped("inconclusive", "never returns a gold id"),
            "a run that never returns a gold id, and whose chunks cover gold spans, has other chunks",
        )
    yield Fault(
        RECHUNKED,
        "new ids for chunks of 300, nothing but ids known, better(recall@5)",
        ("better(recall@5)",),
        _rechunk(60, 300, "recall@5", {"prefix": "new-", "texts": False, "spans": False, "parents": False}),
        Stopped("inconclusive", "cannot be compared"),
        "no id that B retrieved is a gold id or an id of A",
    )
    for share, metric in ((0.25, "recall@5"), (1.0, "mrr")):
        yield Fault(
            RECHUNKED,
            f"ids of gold chunks on other passages for {share:.0%} of the documents of B, 120 questions, {metric}",
            (f"better({metric})",),
            _renamed_gold(120, share, metric, texts=True),
            Stopped("inconclusive", "name another text or span"),
            "at least one in twenty ids names another text in each run",
        )
    yield Fault(
        RECHUNKED,
        "ids of gold chunks on other passages for all documents of B, no texts stored, 120 questions, recall@5",
        ("better(recall@5)",),
        _renamed_gold(120, 1.0, "recall@5", texts=False),
        Unseen(),
        "an id is all that the outputs have: what it names is known to the index only",
    )
    yield Fault(
        RECHUNKED,
        "the gold id on whatever B returns first, for every second of 120 questions, recall@5",
        ("better(recall@5)",),
        _gold_id_on_any_passage,
        Stopped("inconclusive", "several in one run"),
        "the id names several passages within B, and one in A",
    )
    yield Fault(
        RECHUNKED,
        "the gold id on whatever B returns first, for every second of 120 questions, texts alone, recall@5",
        ("better(recall@5)",),
        partial(_gold_id_on_any_passage, places=False),
        Stopped("inconclusive", "several in one run"),
        "under the id B returns the text that another id has in A",
    )
    yield Fault(
        RECHUNKED,
        "B lists chunks of 300 by the best ids of 200, chunker_version unchanged, no texts stored, recall@5",
        ("better(recall@5)",),
        _rechunk(60, 300, "recall@5", {"versions": ("1", "1"), "texts": False, "spans": False, "parents": False}),
        Unseen(),
        "the runs say that the chunker is the same, and no text or span contradicts it",
    )


# --- changed corpus: B searches other documents ----------------------------------------------------------------------

CORPUS = "changed corpus"


def _changed_texts(n: int, metric: str, share: float, *, rewritten: bool = True) -> Callable[[Bench], Pair]:
    """B's corpus has other texts under a share of the ids, and its gold documents are easier to find."""

    def plant(bench: Bench) -> Pair:
        samples, hardness = questions(n), bench.hardness(n)
        first, second = answers(bench.strengths(hardness)), answers(bench.strengths(hardness, 0.8))
        if rewritten:
            for output in second:
                for hit in output.retrieved:
                    if bench.rng.random() < share:
                        hit.doc.text = f"rewritten, {hit.doc.text}"
        baseline = bench.put("a", samples, first, [metric])
        return Pair(baseline, bench.put("b", samples, second, [metric]))

    return plant


def _smaller_corpus(n: int, metric: str, *, removed: float, config: bool = False) -> Callable[[Bench], Pair]:
    """Distractors were removed from B's corpus: the gold document moves up by as many ranks."""

    def plant(bench: Bench) -> Pair:
        samples, strengths = questions(n), bench.strengths(bench.hardness(n))
        easier = 1 - (1 - strengths) * (1 - removed)
        configs = [{"corpus": name} if config else None for name in ("docs-2024", "docs-small")]
        baseline = bench.put("a", samples, answers(strengths), [metric], config=configs[0])
        return Pair(baseline, bench.put("b", samples, answers(easier), [metric], config=configs[1]))

    return plant


def _leaked_references(n: int, metric: str, share: float) -> Callable[[Bench], Pair]:
    """The corpus of B contains the reference answers: a share of the answers is copied from there."""

    def plant(bench: Bench) -> Pair:
        samples, strengths = questions(n), bench.strengths(bench.hardness(n))
        leaked = np.where(bench.rng.random(n) < share, 1.0, strengths)
        baseline = bench.put("a", samples, answers(strengths), [metric])
        return Pair(baseline, bench.put("b", samples, answers(leaked), [metric]))

    return plant


def _new_document_ids(n: int, metric: str) -> Callable[[Bench], Pair]:
    """B's corpus has other ids, of which none is a gold id."""

    def plant(bench: Bench) -> Pair:
        samples, strengths = questions(n), bench.strengths(bench.hardness(n))
        second = answers(strengths)
        for output in second:
            for hit in output.retrieved:
                hit.doc.doc_id = f"v2/{hit.doc.doc_id}"
        baseline = bench.put("a", samples, answers(strengths), [metric])
        return Pair(baseline, bench.put("b", samples, second, [metric]))

    return plant


def _gold_replaced(n: int, metric: str, part: str) -> Callable[[Bench], Pair]:
    """The gold of B's dataset names documents that B returns first."""

    def plant(bench: Bench) -> Pair:
        samples, strengths = questions(n), bench.strengths(bench.hardness(n))
        outputs = answers(strengths)
        changed = []
        for place, sample in enumerate(samples):
            top = outputs[place].retrieved[0].doc
            gold = [*(sample.relevant_docs or []), Document(top.doc_id)] if part == "added" else [Document(top.doc_id)]
            changed.append(replace(sample, relevant_docs=gold))
        baseline = bench.put("a", samples, outputs, [metric])
        return Pair(baseline, bench.put("b", changed, outputs, [metric]))

    return plant


def _edited_gold_text(bench: Bench) -> Pair:
    """The text of a gold document was edited in the dataset of B."""
    samples, strengths = questions(100), bench.strengths(bench.hardness(100))
    edited = [replace(samples[0], relevant_docs=[Document("gold0", "Another text.")]), *samples[1:]]
    baseline = bench.put("a", samples, answers(strengths), ["recall@5"])
    return Pair(baseline, bench.put("b", edited, answers(bench.strengths(np.full(100, 0.9))), ["recall@5"]))


def _stored_text_edited(bench: Bench) -> Pair:
    """The texts of the samples' gold documents are edited in the store after the runs."""
    _, _, _, pair = bench.pair(100, "recall@5", skill=0.8)
    for place in (0, 1):
        text = f"The text of document {place}."
        bench.execute("UPDATE eval_documents SET text = ? WHERE text = ?", b"Edited.", text.encode())
    return pair


def _corpus() -> Iterator[Fault]:
    texts = Stopped("inconclusive", "name another text or span")
    for n, share, metric in ((80, 0.1, "recall@5"), (80, 0.5, "mrr"), (100, 1.0, "ndcg@10")):
        yield Fault(
            CORPUS,
            f"{share:.0%} of the texts rewritten in B's corpus under the same ids, {n} questions, {metric}",
            (f"better({metric})",),
            _changed_texts(n, metric, share),
            texts,
            "at least one in twenty ids that both runs retrieved names another text",
        )
    yield Fault(
        CORPUS,
        "1% of the texts rewritten in B's corpus under the same ids, 120 questions, recall@5",
        ("better(recall@5)",),
        _changed_texts(120, "recall@5", 0.01),
        Noted("name another text"),
        "a document was edited: ids are still matched, and the comparison counts them",
    )
    for n, removed, metric in ((100, 0.2, "recall@5"), (100, 0.5, "mrr"), (100, 0.3, "ndcg@10")):
        yield Fault(
            CORPUS,
            f"{removed:.0%} of the distractors removed from B's corpus, {n} questions, {metric}",
            (f"better({metric})",),
            _smaller_corpus(n, metric, removed=removed),
            Unseen(),
            "documents that are not returned leave no trace in a run",
        )
    yield Fault(
        CORPUS,
        "30% of the distractors removed from B's corpus, named in the config, 100 questions, recall@5",
        ("better(recall@5)",),
        _smaller_corpus(100, "recall@5", removed=0.3, config=True),
        Noted("corpus: docs-2024 in A, docs-small in B"),
        "the config says which corpus it is; whether another corpus is the change under test, the user knows",
    )
    for share, metric in ((0.2, "token_f1"), (0.6, "exact_match")):
        yield Fault(
            CORPUS,
            f"reference answers in B's corpus, copied for {share:.0%} of 100 questions, {metric}",
            (f"better({metric})",),
            _leaked_references(100, metric, share),
            Unseen(),
            "a copied reference is a right answer; that it was leaked is known to the corpus only",
        )
    for n, metric in ((60, "recall@5"), (60, "mrr")):
        yield Fault(
            CORPUS,
            f"other ids for all documents of B's corpus, {n} questions, not worse({metric})",
            (f"not worse({metric})",),
            _new_document_ids(n, metric),
            Stopped("inconclusive", "cannot be compared"),
            "no id that B retrieved is a gold id or an id of A",
        )
    for part, metric in (("added", "recall@1"), ("replaced", "mrr")):
        yield Fault(
            CORPUS,
            f"what B returns first is {part} as gold in its dataset, 80 questions, {metric}",
            (f"better({metric})",),
            _gold_replaced(80, metric, part),
            Stopped("refused", "ran on different datasets"),
            "gold is a part of the fingerprint",
        )
    yield Fault(
        CORPUS,
        "the text of one gold document edited in B's dataset, 100 questions, recall@5",
        ("better(recall@5)",),
        _edited_gold_text,
        Stopped("refused", "ran on different datasets"),
        "texts of gold documents are a part of the fingerprint",
    )
    yield Fault(
        CORPUS,
        "texts of two gold documents edited in the store, 100 questions, recall@5",
        ("better(recall@5)",),
        _stored_text_edited,
        FoundByVerify("samples"),
        "the fingerprint of the stored samples is computed again",
    )


FAULTS: list[Fault] = [*_dropped(), *_rechunked(), *_corpus()]
