"""Options of policies, models, embedders and perturbations: each number has a range, and wrong values are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.judge.critic import JudgePolicy, Price
from auepora_eval.judge.nli import EntailmentFunction, NliModel
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.models.embedders import OpenAIEmbedder, PairModel, SentenceTransformerEmbedder
from auepora_eval.models.loading import ModelSource
from auepora_eval.options import option_types
from auepora_eval.perturb.edits import DropWords, Keyboard, RandomCase, SwapWords, Typo
from auepora_eval.scale.ray_executor import RayExecutor
from auepora_eval.systems.http import HttpSystem
from auepora_eval.systems.policy import CallPolicy
from helpers.declared_options import unbounded_numbers, wrong_values

REQUIRED: dict[Any, dict[str, Any]] = {
    CallPolicy: {},
    JudgePolicy: {},
    Price: {"prompt": 1, "completion": 2},
    ModelSource: {"model": "org/name"},
    SentenceTransformerEmbedder: {"model": "org/name"},
    PairModel: {"model": "org/name"},
    OpenAIEmbedder: {"model": "name"},
    NliModel: {"model": "org/name"},
    EntailmentFunction: {"function": str.startswith},
    Typo: {"rate": 0.1},
    Keyboard: {"rate": 0.1},
    DropWords: {"rate": 0.1},
    SwapWords: {"rate": 0.1},
    RandomCase: {"rate": 0.1},
    RayExecutor: {},
    OpenAICritic: {"model": "name"},
    HttpSystem: {"url": "http://127.0.0.1:9/ask"},
}
"""The options without a default."""
UNCHECKED = {
    OpenAICritic: ("base_url", "api_key_env", "logprobs", "headers", "extra"),
    HttpSystem: ("url", "method", "headers", "response"),
}
"""Options with checks of their own, whose messages show no secret."""
WRONG = [
    (cls, option, value)
    for cls in REQUIRED
    for option, hint in option_types(cls).items()
    if option not in UNCHECKED.get(cls, ())
    for value in wrong_values(hint)
]


def test_every_number_has_a_range() -> None:
    assert {cls: found for cls in REQUIRED if (found := unbounded_numbers(cls))} == {}


@pytest.mark.parametrize("cls", REQUIRED, ids=lambda cls: cls.__name__)
def test_wrong_values_are_refused(cls: Any) -> None:
    cls(**REQUIRED[cls])
    rows = [(option, value) for one, option, value in WRONG if one is cls]
    assert rows
    for option, value in rows:
        with pytest.raises(BadValueError, match=f"{option} must be"):
            cls(**{**REQUIRED[cls], option: value})


def test_smallest_values_are_accepted(tmp_path: Path) -> None:
    CallPolicy(top_k=1, concurrency=1, retries=0, max_failures=0, timeout=1e-3, backoff=0)
    policy = JudgePolicy(max_calls=0, max_tokens=0, max_cost=0, cache=str(tmp_path / "c.db"), cache_only=True)  # type: ignore[arg-type]
    assert policy.cache == tmp_path / "c.db"
    with pytest.raises(BadValueError, match="prices at 'm' must be a Price object, not 3"):
        JudgePolicy(prices={"m": 3})  # type: ignore[dict-item]


def test_plans_refuse_the_same_values(tmp_path: Path, auepora: Any) -> None:
    (tmp_path / "data.jsonl").write_text('{"sample_id": "1", "query": "a"}\n')
    sections = {"run": CallPolicy, "judge": JudgePolicy}
    unset = ("keep_going", "cache", "cache_only", "prices")
    for section, cls in sections.items():
        for option in option_types(cls):
            values = [value for one, key, value in WRONG if (one, key) == (cls, option) and option not in unset]
            for value in values[:2]:
                plan = {"dataset": "data.jsonl", "system": {"python": "json:loads"}, section: {option: value}}
                (tmp_path / "plan.json").write_text(json.dumps(plan))
                code, out, _ = auepora("validate", str(tmp_path / "plan.json"))
                assert (code, f"{section}.{option}: must be" in out) == (2, True), out


FLAGS = [
    ("--concurrency", CallPolicy, "concurrency"),
    ("--judge-repeats", JudgePolicy, "repeats"),
    ("--max-calls", JudgePolicy, "max_calls"),
    ("--max-cost", JudgePolicy, "max_cost"),
    ("--workers", RayExecutor, "workers"),
]


@pytest.mark.parametrize(("flag", "cls", "option"), FLAGS, ids=[row[0] for row in FLAGS])
def test_commands_refuse_the_same_values(flag: str, cls: Any, option: str, auepora: Any) -> None:
    for value in wrong_values(option_types(cls)[option])[:1]:
        code, _, err = auepora("run", "plan.yaml", flag, str(value))
        assert (code, f"'{flag}': " in err, "is not in the range" in err) == (2, True, True), err
