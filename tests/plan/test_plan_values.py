"""Values of a plan: defaults, syntaxes, the stored form, and differences between plans."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.conventions import PRESETS
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.options import option_types
from auepora_eval.plan.model import OpenAISource, Scoring, plan_changes, plan_key
from auepora_eval.plan.prepare import read_plan
from auepora_eval.systems.policy import CallPolicy
from tools import plan_keys

YAML = """\
version: 1
name: nightly
dataset: {jsonl: data/dev.jsonl, corpus: data/corpus.jsonl}
system:
  http:
    url: http://127.0.0.1:8000/ask
    headers: {Accept-Language: de}
    request: {question: "{query}", k: "{top_k}"}
    response: {answer: data.text}
  config: {chunker_version: v3, embedding: small, released: 2024-05-01}
conventions: {name: trec, min_relevance: 2, k_values: [1, 5]}
metrics:
  - recall@5
  - ndcg@10:
  - map: {k: 10, conventions: trec}
primary: [recall@5]
slices: [labels.lang, {kind: metadata.source.kind}]
run: {top_k: 20, concurrency: 4, timeout: 30, retries: 1, repeats: 3, seed: 7, max_failures: 10}
scoring: {executor: processes, workers: 2}
store: runs.sqlite
"""
TOML = """\
version = 1
name = "nightly"
primary = ["recall@5"]
metrics = ["recall@5", {"ndcg@10" = {}}, {map = {k = 10, conventions = "trec"}}]
slices = ["labels.lang", {kind = "metadata.source.kind"}]
store = "runs.sqlite"

[dataset]
jsonl = "data/dev.jsonl"
corpus = "data/corpus.jsonl"

[system.http]
url = "http://127.0.0.1:8000/ask"
method = "post"
headers = {Accept-Language = "de"}
request = {question = "{query}", k = "{top_k}"}
response.answer = "data.text"

[system.config]
chunker_version = "v3"
embedding = "small"
released = 2024-05-01

[conventions]
name = "trec"
min_relevance = 2
k_values = [1, 5]

[run]
top_k = 20
concurrency = 4
timeout = 30.0
retries = 1
repeats = 3
seed = 7
max_failures = 10

[scoring]
executor = "processes"
workers = 2
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_toml_and_json_are_equivalent(tmp_path: Path) -> None:
    from_yaml = read_plan(written(tmp_path, "a.yaml", YAML))
    from_toml = read_plan(written(tmp_path, "a.toml", TOML))
    values = {**from_yaml.source.values, "version": 1}
    from_json = read_plan(written(tmp_path, "a.json", json.dumps(values, indent=1)))
    assert from_yaml.resolved == from_toml.resolved == from_json.resolved
    assert plan_key(from_yaml.resolved) == plan_key(from_toml.resolved) == plan_key(from_json.resolved)
    # Typed alike too: 30 and 30.0 are equal in Python, but are not the same text in a store.
    assert json.dumps(from_yaml.resolved, sort_keys=True) == json.dumps(from_toml.resolved, sort_keys=True)


def test_values_are_read(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, "plan.yaml", YAML))
    assert (plan.name, plan.folder) == ("nightly", tmp_path)
    assert (plan.dataset.path, plan.dataset.format) == (tmp_path / "data" / "dev.jsonl", "jsonl")
    assert plan.dataset.corpus == tmp_path / "data" / "corpus.jsonl"
    assert plan.outputs is None
    assert plan.system is not None
    assert plan.system.kind == "http"
    assert plan.system.options["request"] == {"question": "{query}", "k": "{top_k}"}
    assert plan.policy == CallPolicy(20, 4, timeout=30.0, retries=1, max_failures=10, keep_going=False)
    assert (plan.repeats, plan.seed) == (3, 7)
    assert plan.scoring == Scoring("processes", 2, 1024)
    assert plan.metrics == ("recall@5", "ndcg@10", {"map": {"k": 10, "conventions": "trec"}})
    assert plan.primary == ("recall@5",)
    assert plan.config == {"chunker_version": "v3", "embedding": "small", "released": "2024-05-01"}
    assert plan.store == str(tmp_path / "runs.sqlite")
    rules = plan.resolve_conventions("auepora")
    assert (rules.name, rules.min_relevance, rules.k_values) == ("trec", 2, (1, 5))


def test_defaults(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, "small.yaml", "dataset: d.jsonl\noutputs: o.jsonl\n"))
    assert plan.name == "small"
    assert plan.dataset.format is None
    assert plan.policy == CallPolicy(10, 8, timeout=60.0, retries=2, backoff=0.5, max_failures=None, keep_going=False)
    assert (plan.repeats, plan.seed, plan.metrics, plan.store) == (1, 0, None, None)
    assert plan.scoring == Scoring()
    assert plan.resolve_conventions("auepora") == PRESETS["auepora"]
    assert plan.resolve_conventions("trec") == PRESETS["trec"]
    assert plan.resolved["run"] == {
        "top_k": 10, "concurrency": 8, "timeout": 60.0, "retries": 2, "backoff": 0.5, "max_failures": None,
        "repeats": 1, "seed": 0,
    }  # fmt: skip


def test_the_table_of_keys_is_current() -> None:
    assert plan_keys.PAGE.read_text(encoding="utf-8") == plan_keys.page_text(), "run `make docs`"


def test_options_of_a_judge_are_those_of_its_class() -> None:
    types, defaults = option_types(OpenAICritic), inspect.signature(OpenAICritic).parameters
    declared = {one.name: one for one in fields(OpenAISource)}
    assert {*declared, "timeout"} == set(types)
    for name in ("model", "temperature", "seed", "max_tokens", "schema", "logprobs"):
        assert option_types(OpenAISource)[name] == types[name], name
        assert name == "model" or declared[name].default == defaults[name].default, name


def test_null_equals_absent_except_for_timeout(tmp_path: Path) -> None:
    text = "dataset: d\noutputs: o\n"
    bare = read_plan(written(tmp_path, "p.yaml", text))
    keys = [
        "name",
        "version",
        "system",
        "conventions",
        "primary",
        "metrics",
        "slices",
        "run",
        "scoring",
        "store",
        "gates",
    ]
    nulls = "".join(f"{key}: null\n" for key in keys)
    assert read_plan(written(tmp_path, "p.yaml", text + nulls)).resolved == bare.resolved
    assert read_plan(written(tmp_path, "p.yaml", text + "run: {timeout: null}")).policy.timeout is None


SAME = [  # one, another way to write it, why
    ("dataset: d", "dataset: {auto: d}", "a bare path is one whose format is guessed"),
    ("conventions: trec", "conventions: {name: trec}", "a preset by name"),
    ("conventions: {name: trec, ap: hits, depth: 5}", "conventions: {depth: 5, ap: hits, name: trec}", "order of choices"),
    ("metrics: [map, mrr]", "metrics: [{map: }, {mrr: {}}]", "metrics without options"),
    ("run: {timeout: 60}", "run: {timeout: 60.0, top_k: 10}", "defaults written out"),
    ("system: {command: 'python my_app.py --x'}", "system: {command: [python, my_app.py, --x]}", "words of a command"),
    ("system: {command: [ls]}", "system: {command: {run: ls, cwd: ., env: {}}}", "a command and its surroundings"),
    ("system: {http: 'http://x/y'}", "system: {http: {url: 'http://x/y', method: post}}", "an address alone"),
    ("system: {python: 'a:b'}", "system: {python: 'a:b', args: {}, config: {}}", "a system without arguments"),
    ("resources: {j: {openai: m}}", "resources: {j: {openai: {model: m, temperature: 0, schema: auto}}}", "a judge by its model alone"),
    ("judge: {cache: true}", "judge: {repeats: 1, concurrency: 16}", "the usual way to ask judges"),
    ("judge: {cache_only: true}", "judge: null", "what holds for this once is not kept"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "why"), SAME, ids=[row[2] for row in SAME])
def test_equivalent_plans_are_stored_alike(one: str, other: str, why: str, tmp_path: Path) -> None:
    def resolved(text: str) -> str:
        text += "" if "dataset" in text else "\ndataset: d"
        text += "" if "system" in text else "\noutputs: o"
        return json.dumps(read_plan(written(tmp_path, "p.yaml", text)).resolved, sort_keys=True)

    assert resolved(one) == resolved(other)


@pytest.mark.parametrize(
    "system",
    [
        "outputs: {trec: run.txt, config: {model: x}}",
        "system: {python: 'a.b:c.d', args: {index: idx, depth: [1, {x: null}]}}",
        "system: {http: 'http://x/y'}",
        "system: {command: ls -l}",
        "outputs: o\nresources: {j: {openai: {model: m, seed: null, headers: {X-Y: '${A_KEY}'}}}, k: {recorded: r.jsonl}}\n"
        "judge: {cache: false, repeats: 3, prices: {m: {prompt: 1, completion: 2}}, max_cost: 5}",
        "outputs: o\nresources: {e: {sentence_transformers: m}, f: {openai_embeddings: {model: x}}, p: {python: 'a:b'}}",
    ],
)
def test_stored_plan_is_a_valid_plan(system: str, tmp_path: Path) -> None:
    text = f"dataset: d\n{system}\nmetrics: [map]\nstore: r.sqlite\n"
    plan = read_plan(written(tmp_path, "p.yaml", text), environment={"A_KEY": "secret-1"})
    stored = json.dumps(plan.resolved)
    assert "secret-1" not in stored
    again = read_plan(written(tmp_path, "other.json", stored), environment={"A_KEY": "secret-1"})
    assert again.resolved == plan.resolved
    assert (again.system, again.outputs, again.policy) == (plan.system, plan.outputs, plan.policy)
    assert (again.resources, again.judge) == (plan.resources, plan.judge)


def test_store_is_a_file_or_an_address(tmp_path: Path) -> None:
    def store(text: str) -> str | None:
        return read_plan(written(tmp_path, "p.yaml", f"dataset: d\noutputs: o\nstore: {text}\n")).store

    assert store("runs/a.sqlite") == str(tmp_path / "runs" / "a.sqlite")
    assert store("/var/a.sqlite") == "/var/a.sqlite"
    assert store("sqlite:///a.sqlite") == str(tmp_path / "a.sqlite")
    assert store("sqlite:////var/a.sqlite") == "/var/a.sqlite"
    assert store("postgresql://me@host/runs") == "postgresql://me@host/runs"


CHANGES: list[tuple[dict[str, Any], list[str], str]] = [
    ({}, [], "nothing"),
    ({"store": "other.sqlite"}, [], "where runs are kept"),
    ({"scoring": {"executor": "serial"}}, [], "who scores"),
    ({"run": {"top_k": 5, "retries": 9, "backoff": 2, "max_failures": 99}}, [], "patience"),
    ({"run": {"top_k": 10}}, ["run.top_k: 5 -> 10"], "how many are asked for"),
    ({"run": {"top_k": 5, "timeout": 5}}, ["run.timeout: 60.0 -> 5.0"], "how long an answer may take"),
    ({"run": {"top_k": 5, "repeats": 2}}, ["run.repeats: 1 -> 2"], "how often is asked"),
    ({"metrics": ["map"]}, ['metrics: ["recall@5"] -> ["map"]'], "what is computed"),
    ({"metrics": None}, ['metrics: ["recall@5"] -> nothing'], "what is computed, left open"),
    ({"dataset": {"jsonl": "d.jsonl"}}, ["dataset.auto: d.jsonl -> nothing", "dataset.jsonl: nothing -> d.jsonl"], "format"),
    (
        {"system": {"http": {"url": "http://y", "headers": {"A": "b"}}}},
        ["system.http.url: http://x -> http://y", "system.http.headers.A: nothing -> b"],
        "who is asked",
    ),
    ({"name": "b", "slices": ["labels.a"]}, ["name: a -> b", 'slices: nothing -> ["labels.a"]'], "name and slices"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message", "why"), CHANGES, ids=[row[2] for row in CHANGES])
def test_plan_changes(change: dict[str, Any], message: list[str], why: str, tmp_path: Path) -> None:
    base = {
        "name": "a",
        "dataset": "d.jsonl",
        "system": {"http": "http://x"},
        "metrics": ["recall@5"],
        "run": {"top_k": 5},
    }
    old = read_plan(written(tmp_path, "a.json", json.dumps(base))).resolved
    new = read_plan(written(tmp_path, "b.json", json.dumps(base | change))).resolved
    assert plan_changes(old, new) == message
    assert (plan_key(old) == plan_key(new)) is (not message)


def test_only_repeats_of_judge_change_the_plan(tmp_path: Path) -> None:
    def resolved(judge: str) -> Mapping[str, Any]:
        return read_plan(written(tmp_path, "p.yaml", f"dataset: d\noutputs: o\njudge: {judge}\n")).resolved

    bare = resolved("null")
    assert plan_changes(bare, resolved("{max_calls: 5, cache: false, retries: 0, concurrency: 2, timeout: 9}")) == []
    assert plan_changes(bare, resolved("{repeats: 3}")) == ['judge: nothing -> {"repeats": 3}']
    without = {key: value for key, value in bare.items() if key != "judge"}  # as earlier versions stored it
    assert plan_changes(without, bare) == []


def test_judgement_cache_is_in_the_folder_of_the_store(tmp_path: Path) -> None:
    def cache(judge: str, store: str | None) -> Path | None:
        plan = read_plan(written(tmp_path, "p.yaml", f"dataset: d\noutputs: o\njudge: {judge}\n"))
        return plan.judge.policy_for(store, plan.folder).cache

    assert cache("null", "/var/runs/a.sqlite") == Path("/var/runs/judgements.sqlite")
    assert cache("null", "postgresql://me@host/runs") == tmp_path / "judgements.sqlite"
    assert cache("null", None) == tmp_path / "judgements.sqlite"
    assert cache("{cache: mine.sqlite}", "/var/runs/a.sqlite") == tmp_path / "mine.sqlite"
    assert cache("{cache: false}", "/var/runs/a.sqlite") is None
