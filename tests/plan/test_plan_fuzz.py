"""Any plan file is read or refused with an error of this library; and it is stored as it was read."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from auepora_eval.errors import AueporaError
from auepora_eval.plan.model import plan_changes, plan_key
from auepora_eval.plan.prepare import plan_problems, read_plan
from auepora_eval.plan.source import PLAN_KEYS, looks_like_plan
from helpers.requirements import examples

SUFFIXES = (".yaml", ".toml", ".json")
PIECES = [
    *PLAN_KEYS, "jsonl", "trec", "auto", "corpus", "config", "python", "args", "http", "url", "headers", "command", "run",
    "env", "cwd", "top_k", "timeout", "map", "recall@5", "labels.lang", "${X}", "${", "http://x", "a:b", "no", "1", "-1",
    ":", "- ", "{", "}", "[", "]", "\n", "  ", "&a ", "*a", "<<: ", "!!int ", "'", '"', "=", "#", "\t", "~", ".inf", "|\n",
]  # fmt: skip

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(PIECES))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(PIECES) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
plans = st.fixed_dictionaries(
    {"dataset": st.one_of(st.just("d"), values), "outputs": st.one_of(st.just("o"), values)},
    optional={key: values for key in PLAN_KEYS if key not in ("dataset", "outputs")},
)


def survives(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"plan{suffix}"
        path.write_bytes(content)
        looks_like_plan(path)
        problems = plan_problems(path, environment={"X": "secret"})
        if problems:
            with pytest.raises(AueporaError, match=re.escape(str(problems[0]))):
                read_plan(path, environment={"X": "secret"})
            return
        plan = read_plan(path, environment={"X": "secret"})
        stored = json.dumps(plan.resolved, allow_nan=False)
        assert "secret" not in stored
        assert plan_changes(plan.resolved, json.loads(stored)) == []
        assert plan_key(plan.resolved) == plan_key(json.loads(stored))
        again = Path(folder) / "again.json"
        again.write_text(stored)
        assert read_plan(again, environment={"X": "secret"}).resolved == json.loads(stored)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=examples(150))
@given(content=st.binary(max_size=60))
def test_any_bytes(content: bytes, suffix: str) -> None:
    survives(content, suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=examples(200))
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25))
@example(pieces=["dataset", ":", " ", "&a ", "[", "*a", "]"])
def test_any_pieces_of_plans(pieces: list[str], suffix: str) -> None:
    survives("".join(pieces).encode(), suffix)


@settings(max_examples=examples(150))
@given(value=plans)
def test_any_values_under_the_keys_of_a_plan(value: dict[str, Any]) -> None:
    try:
        text = yaml.safe_dump(value, allow_unicode=True)
    except yaml.YAMLError:
        return  # what YAML cannot write cannot stand in a plan
    survives(text.encode("utf-8", "replace"), ".yaml")


@settings(max_examples=examples(200))
@given(section=st.sampled_from(["system", "run", "scoring", "conventions", "metrics", "slices"]), value=values)
def test_any_values_in_one_section(section: str, value: Any) -> None:
    plan = {"dataset": "d", **({} if section == "system" else {"outputs": "o"}), section: value}
    survives(json.dumps(plan).encode("utf-8", "replace"), ".json")


@settings(max_examples=examples(100))
@given(options=st.dictionaries(st.sampled_from(["k", "as", "conventions", "gain_scheme", "depth", "p"]), values, max_size=3),
       name=st.sampled_from(["map", "ndcg", "rbp", "recall", "bleu", "noise_robustness", "quantile_latency"]))  # fmt: skip
def test_any_options_of_a_metric(options: dict[str, Any], name: str) -> None:
    plan = {"dataset": "d", "outputs": "o", "metrics": [{name: options}]}
    survives(json.dumps(plan).encode("utf-8", "replace"), ".json")
