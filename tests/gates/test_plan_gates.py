"""Gates in plans: read with line and key, stored, and ignored on resume."""

from pathlib import Path

import pytest

from auepora_eval.errors import PlanError
from auepora_eval.plan.model import plan_changes
from auepora_eval.plan.prepare import plan_problems, prepare, read_plan
from helpers.user_project import Project

HEAD = "dataset: data.jsonl\noutputs: out.jsonl\n"
METRICS = HEAD + "metrics: [recall@5, {ndcg@10: {as: linear, gain_scheme: linear}}, mrr]\nslices: [labels.lang]\n"


def write_plan(folder: Path, text: str, name: str = "plan.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_gates_as_strings_and_mappings(tmp_path: Path) -> None:
    text = METRICS + (
        "gates:\n"
        "- recall@5 >= 0.80\n"
        "- {linear: '> 0.5'}\n"
        "- Recall@5 where labels.lang = de >= 0.7\n"
        "- not worse(mrr, by=0.02)\n"
        "- 'coverage >= 0.99'\n"
    )  # fmt: skip
    plan = read_plan(write_plan(tmp_path, text))
    texts = [
        "recall@5 >= 0.80",
        "linear > 0.5",
        "Recall@5 where labels.lang = de >= 0.7",
        "not worse(mrr, by=0.02)",
        "coverage >= 0.99",
    ]
    assert [one.text for one in plan.gates] == texts
    assert [one.metric for one in plan.gates] == ["recall@5", "linear", "recall@5", "mrr", None]
    assert plan.resolved["gates"] == texts


def test_gates_do_not_count_as_plan_changes(tmp_path: Path) -> None:
    bare = read_plan(write_plan(tmp_path, METRICS))
    with_gates = read_plan(write_plan(tmp_path, METRICS + "gates: [recall@5 >= 0.8]\n"))
    assert bare.resolved["gates"] is None
    assert plan_changes(bare.resolved, with_gates.resolved) == []


ROWS = [  # what follows, line, key, part of the message, why
    ("gates: recall@5 > 0", 5, "gates", "must be a list, not the text", "one gate"),
    ("gates: []", 5, "gates", "is an empty list", "no gate"),
    ("gates:\n- mrr > 0\n- mrr => 0\n", 7, "gates[1]", "at character 5 expected >=, >, <= or <", "cannot be read"),
    ("gates:\n- recal@5 > 0", 6, "gates[0]", "did you mean 'recall@5'?", "misspelt metric"),
    ("gates:\n- bleu > 0", 6, "gates[0]", "there are recall@5, linear, mrr", "metric that is not computed"),
    ("gates:\n- ndcg@10 > 0", 6, "gates[0]", "names 'ndcg@10'", "called otherwise here"),
    ("gates:\n- mrr where labels.lnag=de > 0", 6, "gates[0]", "did you mean 'labels.lang'?", "misspelt slice"),
    ("gates:\n- 0.8", 6, "gates[0]", "must be a text, not the number 0.8", "a number"),
    ("gates:\n- [mrr > 0]", 6, "gates[0]", "must be a text, not a list", "a list"),
    ("gates:\n- {mrr: 0.8}", 6, "gates[0]", "must be a text such as '>= 0.8', not the number 0.8", "no sign"),
    ("gates:\n- {mrr: }", 6, "gates[0]", "has no condition; write {'mrr': '>= 0.8'}", "no condition"),
    ("gates:\n- {mrr: '> 0', recall@5: '> 0'}", 6, "gates[0]", "not 2 keys", "two in one"),
    ("gates: [not worse(mrr, by=0.02)]", 5, "gates[0]", "needs quotes inside a list", "YAML's comma"),
    ("gates: [coverage > 0, coverage > 0.1]", 5, "gates", "two gates set the same coverage", "coverage twice"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "line", "key", "message"), [row[:4] for row in ROWS], ids=[row[4] for row in ROWS])
def test_errors_have_line_and_key(tmp_path: Path, more: str, line: int, key: str, message: str) -> None:
    found = plan_problems(write_plan(tmp_path, METRICS + more))[0]
    assert isinstance(found, PlanError)
    assert (found.line, found.key) == (line, key)
    assert message in str(found)


def test_gate_in_plan_without_metrics(tmp_path: Path) -> None:
    assert read_plan(write_plan(tmp_path, HEAD + "gates: [bleu > 0]")).gates[0].metric == "bleu"
    (found,) = plan_problems(write_plan(tmp_path, HEAD + "gates: [blue > 0]"))
    assert "unknown metric 'blue'; did you mean 'bleu'?" in str(found)


def test_json_and_toml_plans(tmp_path: Path) -> None:
    toml = 'dataset = "d"\noutputs = "o"\nmetrics = ["mrr"]\ngates = ["mrr > 0.5"]\n'
    json = '{"dataset": "d", "outputs": "o", "metrics": ["mrr"], "gates": ["mrr > 0.5"]}'
    for name, text in (("p.toml", toml), ("p.json", json)):
        assert read_plan(write_plan(tmp_path, text, name)).gates[0].metric == "mrr"


def test_gates_are_checked_before_the_system_is_built(project: Project) -> None:
    plan = read_plan(project.plan(more="gates: [recall@5 > 0.1]"))
    made = prepare(plan)
    assert [one.metric for one in made.plan.gates] == ["recall@5"]
    assert project.calls() == []
