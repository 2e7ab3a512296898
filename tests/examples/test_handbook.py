"""The bundled handbook: chunks that know their place, a text that stays true to the library, files that are shipped."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import resources

import pytest

from auepora_eval import Document, evaluate_rankings
from auepora_eval.core.conventions import PRESETS
from auepora_eval.examples.quickstart import systems as handbook
from auepora_eval.text.refusal import REFUSAL_PATTERNS
from helpers.checks import for_each
from helpers.requirements import REPO

CHUNKS = {chunk.doc_id: chunk for chunk in handbook.corpus()}


def test_number_of_chunks() -> None:
    assert 80 <= len(CHUNKS) <= 120
    assert len(CHUNKS) == len(handbook.corpus()), "two chunks have one id"


@for_each(CHUNKS.values(), name=lambda chunk: chunk.doc_id)
def test_chunk_matches_its_span_in_the_chapter(chunk: Document) -> None:
    assert chunk.parent_id is not None
    assert chunk.span is not None
    start, end = chunk.span
    assert handbook.chapters()[chunk.parent_id][start:end] == chunk.text
    assert chunk.doc_id.rpartition("-")[0] == chunk.parent_id


@for_each(CHUNKS.values(), name=lambda chunk: chunk.doc_id)
def test_length_of_chunks(chunk: Document) -> None:
    assert 60 <= len(chunk.text.split()) <= 140
    assert chunk.text.endswith(".")


def test_chunks_cover_their_chapter_except_headings() -> None:
    covered = Counter(chunk.text for chunk in CHUNKS.values())
    lines = Counter(
        line for text in handbook.chapters().values() for line in text.splitlines() if line and line[0] != "#"
    )
    assert covered == lines


def test_ids_count_paragraphs_from_one() -> None:
    for chapter in handbook.chapters():
        own = [chunk.doc_id for chunk in CHUNKS.values() if chunk.parent_id == chapter]
        assert own == [f"{chapter}-{number}" for number in range(1, len(own) + 1)]


def _answers_for_a_bound(quantile: float) -> int:
    """The fewest answers that could not all lie below the quantile by chance (2.5 %)."""
    return math.ceil(math.log(0.025) / math.log(quantile))


def _ndcg(gain: str) -> str:
    (result,) = evaluate_rankings([{"a": 3, "b": 1}], [["b", "a"]], [{"ndcg@2": {"gain_scheme": gain}}])
    return f"{result.value:.4f}".lstrip("0")


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


FACTS = [  # chunk, what it says, made of what the library does
    ("refusals-5", f"cover {len(REFUSAL_PATTERNS)} languages", "languages with phrases"),
    ("conventions-1", f"{ {6: 'six'}[len(PRESETS)] } presets: auepora (the default), paper", "number of presets"),
    ("conventions-5", f"{_ndcg('exponential')} and {_ndcg('linear')}", "gains of nDCG"),
    ("latency-3", f"needs {_answers_for_a_bound(0.95)} answers for the 95 % quantile", "a bound for 0.95"),
    ("latency-3", f"and {_answers_for_a_bound(0.99)} for the 99 % quantile", "a bound for 0.99"),
    ("client-1", f"K is {_listed(PRESETS['client'].k_values)}", "the client's cut-offs"),
]


@pytest.mark.parametrize(("chunk", "text"), [fact[:2] for fact in FACTS], ids=[fact[2] for fact in FACTS])
def test_handbook_agrees_with_the_library(chunk: str, text: str) -> None:
    assert text in CHUNKS[chunk].text


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_in_the_handbook(preset: str) -> None:
    assert preset in CHUNKS["conventions-1"].text.replace(",", " ").replace(".", " ").split()


def test_files_are_part_of_the_package() -> None:
    package = resources.files("auepora_eval.examples.quickstart")
    names = {entry.name for entry in package.iterdir()}
    assert {"questions.jsonl", "plan-bm25.yaml", "plan-baseline.yaml", "corpus"} <= names
    assert handbook.dataset_path().is_file()
    assert all(handbook.plan_path(name).is_file() for name in ("bm25", "baseline"))


@pytest.mark.skipif(not (REPO / ".git").exists(), reason="not a checkout")
def test_no_file_is_ignored_by_git() -> None:
    folder = handbook.dataset_path().parent
    files = [str(path) for path in folder.rglob("*") if path.suffix in (".md", ".jsonl", ".yaml")]
    ignored = subprocess.run(["git", "check-ignore", *files], cwd=REPO, capture_output=True, text=True, check=False)
    assert len(files) > 3
    assert ignored.stdout == ""


def test_importing_the_systems_does_not_import_bm25s() -> None:
    code = "import sys, auepora_eval.examples.quickstart.systems; print('bm25s' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
