"""How well gold passages are recognised in retrieved chunks by their text: CLAP NQ, chunks of 60 to 240 words, BM25.

    python -m benchmarks.matching DATA [--quick]

DATA is the folder with ``clapnq_dev_answerable.jsonl`` and ``clapnq_dev_unanswerable.jsonl``. Passages are joined to
documents of six, so that the place of every word is known: what is found by span is the truth. Prints three tables:
random passages by length, real questions with the top ten of BM25, and the same text cut again.
"""

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from auepora_eval import Document, EvaluationSample
from auepora_eval.core.conventions import Match
from auepora_eval.features.matching import FOUND_FROM, covered_proportion, gold_units, unit_ranks
from auepora_eval.text.scripts import auto_tokens

PASSAGES_PER_DOCUMENT = 6
LENGTHS = ((10, 20), (21, 60), (61, 150), (151, 300))
CHUNKS = ((60, 0.0), (120, 0.0), (120, 0.25), (240, 0.25))
Rng = np.random.Generator


class Place(NamedTuple):
    """Words of a document: its number, the first word, and one past the last."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class Corpus:
    """Documents as words, and questions with the place of the sentences that answer them."""

    documents: list[list[str]]
    questions: list[tuple[str, Place]]

    def passage(self, place: Place, *, damage: Rng | None = None, placed: bool = True) -> Document:
        """The words of a place as a document; ``damage`` drops and changes some of them."""
        number, start, end = place
        words = self.documents[number]
        text = " ".join(words[start:end])
        if not placed:
            return Document(
                f"{number}-{start}-{end}", text if damage is None else " ".join(damaged(words[start:end], damage))
            )
        before = [0, *accumulate(len(word) + 1 for word in words[:end])]
        return Document(f"{number}-{start}-{end}", text, parent_id=str(number), span=(before[start], before[end] - 1))

    def chunks(self, size: int, overlap: float, numbers: Sequence[int] | None = None) -> list[Place]:
        """All chunks of this many words; the last of a document may be shorter."""
        places = []
        step = max(1, round(size * (1 - overlap)))
        for number in range(len(self.documents)) if numbers is None else numbers:
            length = len(self.documents[number])
            for start in range(0, max(1, length), step):
                places.append(Place(number, start, min(start + size, length)))
                if start + size >= length:
                    break
        return places


def read_corpus(folder: Path, *, seed: int = 41) -> Corpus:
    """The distinct passages in random order, joined to documents."""
    rows = []
    for name in ("answerable", "unanswerable"):
        with (folder / f"clapnq_dev_{name}.jsonl").open(encoding="utf-8") as lines:
            rows += [json.loads(line) for line in lines]
    order = np.random.default_rng(seed).permutation(len(rows))
    corpus, seen = Corpus([], []), set()
    for first in range(0, len(order), PASSAGES_PER_DOCUMENT):
        document: list[str] = []
        for row in (rows[number] for number in order[first : first + PASSAGES_PER_DOCUMENT]):
            text = row["passages"][0]["text"]
            if text in seen:
                continue
            seen.add(text)
            words = auto_tokens(text)
            bounds = _answer_bounds(row, words)
            if bounds:
                place = Place(len(corpus.documents), len(document) + min(bounds), len(document) + max(bounds))
                corpus.questions.append((row["input"], place))
            document += words
        corpus.documents.append(document)
    return corpus


def _answer_bounds(row: dict[str, Any], words: list[str]) -> list[int]:
    """Where the sentences that answer a question start and end in its passage."""
    bounds = []
    answer = row["output"][0] if row["output"] else {}
    for sentence in answer.get("selected_sentences") or []:
        wanted = auto_tokens(sentence)
        for start in range(len(words) - len(wanted) + 1):
            if wanted and words[start : start + len(wanted)] == wanted:
                bounds += [start, start + len(wanted)]
                break
    return bounds


def damaged(words: Sequence[str], rng: Rng) -> list[str]:
    """Noise of an extraction: .5 % of the words are lost, 1.5 % changed."""
    draws = rng.random(len(words))
    return [word if draw > 0.02 else word + "x" for word, draw in zip(words, draws, strict=True) if draw > 0.005]


def is_found(gold: Document, chunks: Sequence[Document], match: Match) -> bool:
    units = gold_units(EvaluationSample("", "", [gold]), match)
    return unit_ranks(units, chunks, match)[0].rank is not None


def bm25(texts: Sequence[Sequence[str]]) -> Callable[[Sequence[str], int], list[int]]:
    """A search that gives the numbers of the best texts."""
    counts = [Counter(text) for text in texts]
    lengths = np.array([len(text) for text in texts], float)
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, terms in enumerate(counts):
        for term, count in terms.items():
            postings[term].append((number, count))

    def search(query: Sequence[str], k: int) -> list[int]:
        scores = np.zeros(len(texts))
        for term in sorted(set(query) & postings.keys()):
            numbers, occurrences = map(np.array, zip(*postings[term], strict=True))
            rarity = math.log(1 + (len(texts) - len(numbers) + 0.5) / (len(numbers) + 0.5))
            norm = occurrences + 1.2 * (0.25 + 0.75 * lengths[numbers] / lengths.mean())
            scores[numbers] += rarity * occurrences * 2.2 / norm
        best = np.argsort(-scores, kind="stable")[:k]
        return [int(number) for number in best if scores[number] > 0]

    return search


@dataclass(frozen=True)
class Agreement:
    """Which passages are found by place and which by text."""

    by_span: np.ndarray
    by_text: np.ndarray

    @property
    def false(self) -> float:
        """The proportion found by text alone."""
        return float((self.by_text & ~self.by_span).mean())

    @property
    def missed(self) -> float:
        """The proportion found by place alone."""
        return float((self.by_span & ~self.by_text).mean())


def search_agreement(
    corpus: Corpus, size: int, overlap: float, *, k: int = 10, questions: int | None = None
) -> Agreement:
    """Whether the sentences that answer each question are found in the top ``k`` of BM25."""
    places = corpus.chunks(size, overlap)
    search = bm25([corpus.documents[number][start:end] for number, start, end in places])
    rows = []
    for question, place in corpus.questions[:questions]:
        retrieved = [places[number] for number in search(auto_tokens(question), k)]
        by_span = is_found(corpus.passage(place), [corpus.passage(chunk) for chunk in retrieved], "span")
        chunks = [corpus.passage(chunk, placed=False) for chunk in retrieved]
        rows.append((by_span, is_found(corpus.passage(place, placed=False), chunks, "text")))
    columns = np.array(rows, dtype=bool).T
    return Agreement(columns[0], columns[1])


def recut_recalls(corpus: Corpus, match: Match, *, k: int = 10, questions: int | None = None) -> tuple[float, float]:
    """Recall of what BM25 finds with chunks of 120 words, and of the same text cut into chunks of 60 words."""
    places = corpus.chunks(120, 0.0)
    search = bm25([corpus.documents[number][start:end] for number, start, end in places])
    found = []
    for question, place in corpus.questions[:questions]:
        retrieved = [places[number] for number in search(auto_tokens(question), k)]
        halves = []
        for number, start, end in retrieved:
            halves += [Place(number, cut, min(cut + 60, end)) for cut in range(start, end, 60)]
        gold = corpus.passage(place, placed=match == "span")
        cuts = [[corpus.passage(chunk, placed=match == "span") for chunk in cut] for cut in (retrieved, halves)]
        found.append([is_found(gold, cut, match) for cut in cuts])
    before, after = np.array(found, float).mean(0)
    return float(before), float(after)


class Recognition(NamedTuple):
    """Passages of one length: the proportion missed of those fully covered, false hits, and agreement with places."""

    missed: float
    false: float
    agreed: float


def recognition(corpus: Corpus, lengths: Sequence[tuple[int, int]], passages: int) -> Iterator[tuple[str, Recognition]]:
    """How often random passages are recognised in chunks that overlap them, and in chunks that do not."""
    rng = np.random.default_rng(42)
    for low, high in lengths:
        for noise in ("", ", noisy"):
            damage = rng if noise else None
            rows = [row for _ in range(passages) if (row := _recognise(corpus, low, high, rng=rng, damage=damage))]
            covered, by_text, near, far = (np.array(column) for column in zip(*rows, strict=True))
            whole = covered >= 0.999
            missed = float((~by_text[whole].astype(bool)).mean())
            false = max(float(near[near >= 0].mean()), float(far.mean()))
            yield f"{low}–{high}{noise}", Recognition(missed, false, float((by_text == (covered >= FOUND_FROM)).mean()))


def _recognise(
    corpus: Corpus, low: int, high: int, *, rng: Rng, damage: Rng | None
) -> tuple[float, bool, int, bool] | None:
    """A random passage: its covered proportion, whether it is found by text, and whether it is in foreign chunks."""
    size, overlap = (60, 120, 240)[rng.integers(3)], (0.0, 0.25)[rng.integers(2)]
    number, length = int(rng.integers(len(corpus.documents))), int(rng.integers(low, high + 1))
    if len(corpus.documents[number]) <= length + 5:
        return None
    start = int(rng.integers(0, len(corpus.documents[number]) - length))
    end = start + length
    gold = corpus.passage(Place(number, start, end), placed=False)

    def found(chunks: Sequence[Place]) -> bool:
        return is_found(gold, [corpus.passage(chunk, damage=damage, placed=False) for chunk in chunks], "text")

    chunks = corpus.chunks(size, overlap, [number])
    over = [chunk for chunk in chunks if chunk.start < end and chunk.end > start]
    kept = [chunk for chunk in over if rng.random() < 0.6] or over[:1]
    spans = [corpus.passage(chunk).span or (0, 0) for chunk in kept]
    covered = covered_proportion(corpus.passage(Place(number, start, end)), spans)
    by_text = found(kept)
    foreign = [chunk for chunk in chunks if chunk not in over]
    near = int(found([foreign[i] for i in rng.permutation(len(foreign))[:5]])) if foreign else -1
    other = int(rng.integers(len(corpus.documents)))
    if other == number:
        other = (other + 1) % len(corpus.documents)
    elsewhere = corpus.chunks(size, overlap, [other])
    return covered, by_text, near, found([elsewhere[i] for i in rng.permutation(len(elsewhere))[:10]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder with the files of CLAP NQ")
    parser.add_argument("--quick", action="store_true", help="a quarter of the passages and questions")
    options = parser.parse_args()
    corpus = read_corpus(options.data)
    questions = len(corpus.questions) // (4 if options.quick else 1)
    print(f"{len(corpus.documents)} documents, {questions} questions, found from {FOUND_FROM}")
    print("\n| words of gold | missed of fully covered | false | same as by place |\n|---|---|---|---|")
    for name, row in recognition(corpus, LENGTHS, 100 if options.quick else 400):
        print(f"| {name} | {row.missed:.3f} | {row.false:.3f} | {row.agreed:.3f} |")
    print("\n| chunks, overlap | recall@10 by span | by text | false | missed |\n|---|---|---|---|---|")
    for size, overlap in CHUNKS:
        found = search_agreement(corpus, size, overlap, questions=questions)
        recalls = f"{found.by_span.mean():.3f} | {found.by_text.mean():.3f}"
        print(f"| {size}, {overlap:.0%} | {recalls} | {found.false:.3f} | {found.missed:.3f} |")
    print("\n| same text cut from 120 to 60 words | recall before | after |\n|---|---|---|")
    for k in (3, 10):
        for match in ("span", "text"):
            before, after = recut_recalls(corpus, match, k=k, questions=questions)
            print(f"| by {match}, k = {k} | {before:.3f} | {after:.3f} |")


if __name__ == "__main__":
    main()
