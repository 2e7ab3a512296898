"""What a dataset can decide: ``auepora validate DATA --quality``."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auepora_eval.core.types import Document, EvaluationSample, Response
from auepora_eval.runs.dataset_quality import dataset_quality
from helpers.user_project import Project

Auepora = Callable[..., tuple[int, str, str]]
WORDS = ["apples", "boats", "clouds", "doors", "engines", "forks", "gardens", "houses", "islands", "jokes"]


def questions(count: int) -> list[EvaluationSample]:
    return [
        EvaluationSample(f"q{n}", f"How are {WORDS[n % 10]} made in country {n}?", [Document(f"d{n}", "")], None, None)
        for n in range(count)
    ]


def kinds(samples: Sequence[EvaluationSample], **options: object) -> dict[str, Sequence[str]]:
    found = dataset_quality(samples, **options)  # type: ignore[arg-type]
    return {finding.kind: finding.sample_ids for finding in found.findings}


class TestFindings:
    def test_large_set_without_findings(self) -> None:
        found = dataset_quality(questions(120), corpus_ids={f"d{n}" for n in range(120)})
        assert found.findings == []
        assert found.conclusion.startswith("With 120 questions a difference of about 0.13 can be detected (assuming")

    def test_near_duplicates(self) -> None:
        samples = questions(120)
        samples[7] = replace(samples[7], query="How are boats made, in country 1")
        assert kinds(samples) == {"near_duplicates": ["q1", "q7"]}
        together = [
            replace(sample, cluster_id="one") if sample.sample_id in ("q1", "q7") else sample for sample in samples
        ]
        assert kinds(together) == {}

    def test_other_numbers_are_other_questions(self) -> None:
        samples = [replace(sample, query=f"What is {sample.sample_id[1:]} plus one?") for sample in questions(120)]
        assert kinds(samples) == {}

    def test_one_form_of_question_about_two_things(self) -> None:
        """Only where reference and gold both differ: otherwise it may be the same question."""
        samples = questions(120)
        samples[7] = replace(samples[7], query="How are coats made in country 1?", reference_answer=Response("by hand"))
        samples[1] = replace(samples[1], reference_answer=Response("in yards"))
        assert kinds(samples) == {}
        samples[7] = replace(samples[7], relevant_docs=samples[1].relevant_docs)
        assert kinds(samples) == {"near_duplicates": ["q1", "q7"]}

    def test_gold_outside_the_corpus(self) -> None:
        ids = {f"d{n}" for n in range(118)}
        assert kinds(questions(120), corpus_ids=ids) == {"gold_not_in_corpus": ["q118", "q119"]}

    def test_clusters_count_once(self) -> None:
        samples = [replace(sample, cluster_id=str(n // 4)) for n, sample in enumerate(questions(120))]
        found = dataset_quality(samples)
        assert (found.units, found.samples) == (30, 120)
        assert "in 30 groups that belong together" in found.conclusion
        assert found.detectable == pytest.approx(0.265, abs=0.005)

    def test_few_questions(self) -> None:
        assert "few_questions" in kinds(questions(20))
        assert dataset_quality(questions(1)).conclusion == "1 questions: too few to detect any difference"


class TestCommand:
    def test_stored_runs(self, project: Callable[[int], Project], auepora: Auepora) -> None:
        project(12)
        for name in ("first", "second"):
            broken = "['0', '1']" if name == "second" else "[]"
            assert auepora("run", "plan.yaml", "--name", name, "--set", f"system.args.broken={broken}", "-q")[0] == 0
        code, out, _ = auepora("validate", "data.jsonl", "--quality", "--json")
        quality = json.loads(out)["quality"]
        assert code == 0
        assert len(quality["runs"]) == 2
        found = {finding["kind"]: finding["sample_ids"] for finding in quality["findings"]}
        assert "few_questions" in found
        assert "by the spread between" in quality["conclusion"]

    def test_conclusion_first_and_one_run(self, project: Callable[[int], Project], auepora: Auepora) -> None:
        project(12)
        assert auepora("validate", "data.jsonl", "--quality")[1].startswith("With 12 questions a difference")
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        code, out, _ = auepora("validate", "data.jsonl", "--quality", "--run", "latest", "--json")
        assert (code, len(json.loads(out)["quality"]["runs"])) == (0, 1)

    def test_errors(self, project: Callable[[int], Project], auepora: Auepora) -> None:
        project(3)
        assert "--run goes with --quality" in auepora("validate", "data.jsonl", "--run", "latest")[2]
        Path("data.jsonl").write_text('{"sample_id": 1}\n')
        code, out, _ = auepora("validate", "data.jsonl", "--quality")
        assert (code, "detect" in out) == (2, False)
