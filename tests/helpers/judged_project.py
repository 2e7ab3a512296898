"""A user's project whose answers are judged by an endpoint."""

from collections.abc import Callable
from pathlib import Path

from helpers.judge_server import Asked
from helpers.user_project import Project

__all__ = ["judged_by_endpoint", "parity", "score_of"]

METRICS = "[recall@5, {llm_faithfulness: {critic: {use: judge}, scale: 1-5}}]"


def score_of(number: int) -> int:
    """What the judge thinks of the answer to a question by its number."""
    return 1 + number % 5


def parity(asked: Asked) -> dict[str, object]:
    """Judges by the number in the answer, and says so."""
    number = int(asked.prompt.split("the answer is ")[1].split()[0].strip(".\"'"))
    return {"rationale": f"number {number}", "score": score_of(number)}


def judged_by_endpoint(
    project: Callable[[int], Project],
    url: str,
    samples: int,
    *,
    more: str = "",
    options: str = "",
    run: str = "{concurrency: 4}",
) -> Path:
    """The plan of a project with so many samples, judged by the endpoint at this address."""
    made = project(samples)
    made.plan(run=run, more=f"resources: {{judge: {{openai: {{model: tiny, base_url: '{url}'{options}}}}}}}\n{more}")
    path = made.folder / "plan.yaml"
    text = path.read_text()
    path.write_text(text[: text.index("metrics:")] + f"metrics: {METRICS}\n" + text[text.index("slices:") :])
    return path
