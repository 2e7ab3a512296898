"""Write the tables of ``docs/judging/agreement.md``: how far metrics and recorded judges agree with people.

    python -m tools.agreement [--data FOLDER] [--output FILE]
        [--judge-model NAME [--judge-url URL] [--judge-key-env VARIABLE] [--cache FILE] [--max-calls N]]

Reads the public datasets ``nq301`` and ``evouna`` from a folder beside the checkout. With ``--judge-model`` the metric
``llm_correctness`` is computed too: one call for each of about 19,000 answers, which ``--max-calls`` limits.
"""

import argparse
import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from auepora_eval import EvaluationSample, Response, SystemOutputs, evaluate
from auepora_eval.judge.critic import JudgePolicy
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.models.loading import find_installed_model
from auepora_eval.render.markdown import markdown_table
from auepora_eval.stats.agreement import agreement_report, kappa_report, pearson_report
from auepora_eval.stats.intervals import Estimate

REPO = Path(__file__).parent.parent
PAGE = REPO / "docs" / "judging" / "agreement.md"
DATA = REPO.parent / "shared" / "data"
SYSTEMS = {"fid": "FiD", "gpt35": "GPT-3.5", "chatgpt": "ChatGPT", "gpt4": "GPT-4", "newbing": "New Bing"}
RECORDED = {"gpt-4": "GPT-4", "text-davinci-003": "text-davinci-003", "BEM": "BEM"}
Floats = npt.NDArray[np.float64]


# --- the data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """Answers with a human label each, and the verdicts of judges where they were recorded."""

    samples: list[EvaluationSample]
    outputs: list[SystemOutputs]
    labels: Floats
    """1 where people accept the answer, else 0."""
    questions: npt.NDArray[np.intp]
    """The question of each answer: the cluster of the intervals."""
    systems: list[str] = field(default_factory=list)
    """The system that gave each answer, where it is known."""
    recorded: dict[str, Floats] = field(default_factory=dict)
    """Verdicts by judge, NaN where it gave none."""


def read_evouna(path: Path) -> LabelledAnswers:
    """The answers of five systems; questions marked improper and answers without a label are left out."""
    answers: list[tuple[int, str, dict[str, Any]]] = [
        (question, system, row)
        for question, row in enumerate(json.loads(path.read_text(encoding="utf-8")))
        for system in SYSTEMS
        if not row["improper"] and row[f"judge_{system}"] is not None
    ]
    return LabelledAnswers(
        [
            EvaluationSample(f"{system}-{question}", row["question"], reference_answers=row["golden_answer"].split("/"))
            for question, system, row in answers
        ],
        [SystemOutputs([], Response(row[f"answer_{system}"])) for _, system, row in answers],
        np.array([float(row[f"judge_{system}"]) for _, system, row in answers]),
        np.array([question for question, _, _ in answers], dtype=np.intp),
        [system for _, system, _ in answers],
    )


def read_nq301(folder: Path) -> LabelledAnswers:
    """The answers that people and all three judges have in common.

    The files are joined on question and answer without white space: one file lacks the tab between the two, and two
    answers that differ in white space alone are one.
    """
    human = _read_rows(folder / "NQ301_human.tsv", 2)
    judges = {
        "gpt-4": _read_rows(folder / "NQ301_gpt-4.tsv", 2),
        "text-davinci-003": _read_rows(folder / "NQ301_text-davinci-003.tsv", 1),
        "BEM": _read_rows(folder / "NQ301_BEM.tsv", 3),
    }
    common = [key for key in human if all(key in rows for rows in judges.values())]
    questions = {question: number for number, question in enumerate(dict.fromkeys(human[key][1] for key in common))}
    verdict_column = {"gpt-4": 3, "text-davinci-003": 2, "BEM": 4}
    return LabelledAnswers(
        [
            EvaluationSample(str(number), human[key][1], reference_answers=judges["BEM"][key][2].split(" | "))
            for number, key in enumerate(common)
        ],
        [SystemOutputs([], Response(human[key][2])) for key in common],
        np.array([_verdict(human[key][3]) for key in common]),
        np.array([questions[human[key][1]] for key in common], dtype=np.intp),
        recorded={
            name: np.array([_verdict(rows[key][verdict_column[name]]) for key in common])
            for name, rows in judges.items()
        },
    )


def _read_rows(path: Path, answer_column: int) -> dict[str, list[str]]:
    """The rows of a TSV file by their question and answer; of equal ones the first."""
    rows: dict[str, list[str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in list(csv.reader(file, delimiter="\t"))[1:]:
            text = row[1] if answer_column == 1 else row[1] + row[answer_column]
            rows.setdefault("".join(text.split()), row)
    return rows


def _verdict(text: str) -> float:
    return {"Yes": 1.0, "No": 0.0}.get(text, np.nan)


# --- scores and agreement --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """A metric, and the score from which an answer counts as accepted."""

    title: str
    spec: Any
    threshold: float
    judging: JudgePolicy | None = None
    """How the judge is called, if it is a metric that needs one."""


def offline_methods(model: str) -> list[Method]:
    """The metrics without a judge; ``model`` is the path of a sentence-transformers model."""
    similarity = {"sbert_similarity": {"model": model, "device": "cpu"}}
    return [
        Method("exact match (`exact_match`)", "exact_match", 1.0),
        Method("token F1 (`token_f1`)", "token_f1", 0.5),
        Method("containment (`containment`)", "containment", 1.0),
        Method("semantic similarity (`sbert_similarity`)", similarity, 0.5),
    ]


def judge_method(critic: OpenAICritic, policy: JudgePolicy) -> Method:
    """``llm_correctness`` by a judge; the threshold lies between partly correct (0.5) and correct (1)."""
    return Method(f"`llm_correctness` by {critic.model}", {"llm_correctness": {"critic": critic}}, 0.75, policy)


def score_answers(answers: LabelledAnswers, methods: Sequence[Method]) -> dict[str, Floats]:
    """The score of each answer by title of the method, NaN where it was skipped or failed."""
    scores = {}
    for one in methods:
        (result,) = evaluate(answers.samples, answers.outputs, [one.spec], judging=one.judging)
        scores[one.title] = np.array([np.nan if score is None else score for score in result.scores or ()], np.float64)
    return scores


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """The agreement of the verdicts of a metric or a judge with the human labels."""

    title: str
    threshold: float | None
    n: int
    accuracy: Estimate
    kappa: Estimate
    correlation: Estimate

    def cells(self) -> list[str]:
        """The row of the table."""
        threshold = "" if self.threshold is None else f"{self.threshold:g}"
        estimates = [estimate_text(one) for one in (self.accuracy, self.kappa, self.correlation)]
        return [self.title, threshold, f"{self.n:,}", *estimates]


def measure_agreement(
    title: str, scores: Floats, threshold: float | None, labels: Floats, questions: npt.NDArray[np.intp]
) -> AgreementRow:
    """Agreement of scores with labels; without a threshold the scores are verdicts."""
    known = ~np.isnan(scores)
    scores, labels, questions = scores[known], labels[known], questions[known]
    verdicts = scores if threshold is None else (scores >= threshold).astype(np.float64)
    pair = verdicts.tolist(), labels.tolist()
    return AgreementRow(
        title,
        threshold,
        len(scores),
        agreement_report(*pair, clusters=questions),
        kappa_report(*pair, clusters=questions),
        pearson_report(scores.tolist(), labels.tolist(), clusters=questions),
    )


def estimate_text(estimate: Estimate) -> str:
    """A value with its interval, to three decimals."""
    if estimate.value is None:
        return "n/a"
    interval = estimate.interval
    return f"{estimate.value:.3f}" + ("" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]")


# --- the page --------------------------------------------------------------------------------------------------------

MARKS = ("<!-- Written by `python -m tools.agreement`. -->\n", "<!-- end -->\n")
HEADERS = ["", "threshold", "answers", "accuracy", "kappa", "correlation"]


def page_text(nq301: LabelledAnswers, evouna: LabelledAnswers, methods: Sequence[Method]) -> str:
    """The page with current tables."""
    parts = []
    for name, answers in (("nq301", nq301), ("evouna", evouna)):
        scores = score_answers(answers, methods)
        questions = len(np.unique(answers.questions))
        parts.append(f"## {name}: {len(answers.labels):,} answers to {questions:,} questions\n")
        parts.append(_table(HEADERS, agreement_rows(answers, methods, scores)))
        if answers.systems:
            titles = [one.title.partition(" (")[0] for one in methods]
            parts.append("Accuracy by system:\n")
            parts.append(_table(["", "answers", "accepted by people", *titles], system_rows(answers, methods, scores)))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    return "\n".join([f"{before}{MARKS[0]}", *parts, f"{MARKS[1]}{rest.partition(MARKS[1])[2]}"])


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(headers, rows, right=range(1, len(headers))) + "\n"


def agreement_rows(
    answers: LabelledAnswers, methods: Sequence[Method], scores: Mapping[str, Floats] | None = None
) -> list[list[str]]:
    """A row for each method and for each recorded judge, and one for our own judge if it is not among the methods."""
    scores = score_answers(answers, methods) if scores is None else scores
    columns: list[tuple[str, Floats, float | None]] = [(one.title, scores[one.title], one.threshold) for one in methods]
    columns += [
        (f"{title}, recorded", answers.recorded[name], None)
        for name, title in RECORDED.items()
        if name in answers.recorded
    ]
    rows = [
        measure_agreement(title, column, threshold, answers.labels, answers.questions).cells()
        for title, column, threshold in columns
    ]
    if all(one.judging is None for one in methods):
        rows.append(["our judge (`llm_correctness`)", "", "0", "n/a", "n/a", "n/a"])
    return rows


def system_rows(
    answers: LabelledAnswers, methods: Sequence[Method], scores: Mapping[str, Floats] | None = None
) -> list[list[str]]:
    """A row for each system: its answers, the proportion that people accept, and the accuracy of each method."""
    scores = score_answers(answers, methods) if scores is None else scores
    systems = np.array(answers.systems)
    rows = []
    for system in dict.fromkeys(answers.systems):
        own = systems == system
        labels, questions = answers.labels[own], answers.questions[own]
        accuracies = [
            measure_agreement(one.title, scores[one.title][own], one.threshold, labels, questions).accuracy
            for one in methods
        ]
        rows.append([SYSTEMS[system], f"{own.sum():,}", f"{labels.mean():.3f}", *map(estimate_text, accuracies)])
    return rows


def main(
    arguments: Sequence[str] | None = None, *, find_model: Callable[[], str | None] = find_installed_model
) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with nq301 and evouna")
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.add_argument("--model", default=find_model(), help="path of a sentence-transformers model")
    parser.add_argument("--judge-model", help="judge to ask for llm_correctness")
    parser.add_argument("--judge-url")
    parser.add_argument("--judge-key-env", default="OPENAI_API_KEY")
    parser.add_argument("--cache", type=Path, help="SQLite file that keeps the judgements")
    parser.add_argument("--max-calls", type=int)
    options = parser.parse_args(arguments)
    if options.model is None:
        parser.error("name a sentence-transformers model with --model, or pip install 'auepora-eval[semantic]'")
    for path in (options.data / "nq301", options.data / "evouna"):
        if not path.is_dir():
            parser.error(f"{path} does not exist: --data names the folder that contains nq301 and evouna")
    methods = offline_methods(options.model)
    if options.judge_model is not None:
        critic = OpenAICritic(options.judge_model, base_url=options.judge_url, api_key_env=options.judge_key_env)
        methods.append(judge_method(critic, JudgePolicy(cache=options.cache, max_calls=options.max_calls)))
    nq301, evouna = read_nq301(options.data / "nq301"), read_evouna(options.data / "evouna" / "NQ.json")
    options.output.write_text(page_text(nq301, evouna, methods), encoding="utf-8")


if __name__ == "__main__":
    main()
