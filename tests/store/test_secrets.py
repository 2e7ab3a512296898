"""Secrets are never written, wherever they turn up and however they are escaped."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from auepora_eval.cli.main import main
from auepora_eval.core.scores import Scores
from auepora_eval.core.types import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
)
from auepora_eval.errors import BadValueError
from auepora_eval.store import RunStore, StoredOutput
from helpers.postgres_server import PASSWORD
from helpers.user_project import Project

SECRET = 'k"1\\é/☃&x'


def dump_store(store: RunStore) -> bytes:
    """Return the whole content of a store as bytes."""
    cells = []
    with store._database.read() as connection:
        for table in ("eval_runs", "eval_query_results", "eval_samples", "eval_documents", "eval_scores"):
            for row in connection.rows(f"SELECT * FROM {table}"):
                cells += [bytes(cell) if isinstance(cell, (bytes, memoryview)) else str(cell).encode() for cell in row]
    return b"\n".join(cells)


def create_run_with_secret(store: RunStore, secret: str) -> str:
    """A run that has the secret everywhere."""
    text = f"before {secret} after"
    body = json.dumps({"key": secret})
    sample = EvaluationSample("q1", "?")
    hits = [RetrievedDocument(Document("d", text, {"m": text}), 0.5, 1)]
    output = SystemOutputs(
        hits, Response(text, {"s": [text]}), {"end_to_end": 0.5}, {"body": body, "twice": json.dumps(body)}, f"http_500: {text} {body}",
        None, ["d"], [{"query": text}], {text: 1},
    )  # fmt: skip
    run_id = store.create_run(
        text, [sample], dataset_name=text, plan={"headers": {"Authorization": text}}, config={"a": [text]}, tags=[text]
    ).run_id
    store.append(run_id, [StoredOutput(0, 0, "q1", output), StoredOutput(1, 0, "q2", SystemOutputs(hits))])
    store.put_result(run_id, MetricResult(text, TargetCategory.LATENCY, 1.0, {text: text}, signature=f"m|{text}"))
    keyed = Scores.of([1.0], keys=[text])
    repeated = MetricResult("keyed", TargetCategory.LATENCY, 1.0, scores=replace(keyed, repeats=(keyed, keyed)))
    store.put_result(run_id, repeated)
    store.set_aggregate(run_id, {text: text})
    store.tag(run_id, f"tag {text}")
    store.finish(run_id, message=text)
    return run_id


@pytest.mark.parametrize("secret", ["sk-123456", SECRET, "0123", "true", "pa ss%20"])
def test_no_secret_is_written(url: str, secret: str) -> None:
    with RunStore.open(url, secrets=["", secret]) as store:
        run_id = create_run_with_secret(store, secret)
        content = dump_store(store)
        if secret not in ("0123", "true"):  # part of ids, times and JSON itself
            for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
                assert form.encode() not in content
        assert b"before *** after" in content
        (first, second) = store.outputs(run_id)
        assert first.output.error is not None
        assert first.output.error.startswith("http_500: before *** after {")
        assert secret not in str(first).replace("***", "") or secret in ("0123", "true")
        assert first.output.retrieved[0].doc == Document("d", "before *** after", {"m": "before *** after"})
        assert json.loads(first.output.extra["body"]) == {"key": "***"}
        assert second.sample_id == "q2"
        assert store.get(run_id).plan == {"headers": {"Authorization": "before *** after"}}
        assert store.results(run_id)[0].name == "before *** after"
        kept = store.results(run_id)[1].scores
        assert isinstance(kept, Scores)
        assert [one.keys for one in (kept, *(kept.repeats or ()))] == [("before *** after",)] * 3


def test_ids_are_not_redacted(url: str) -> None:
    name = "wiki/d1"
    hits = [RetrievedDocument(Document(name, name, {"m": name}, name), 0.5, 1)]
    cited = Response(name, sentences=[{"text": name, "citations": [name]}])
    with RunStore.open(url, secrets=["wiki"]) as store:
        run_id = store.create_run("one", [EvaluationSample("q1", "?")], dataset_name="d", plan={}).run_id
        store.append(run_id, [StoredOutput(0, 0, name, SystemOutputs(hits, cited, citations=[name]))])
        (row,) = store.outputs(run_id)
    hidden = "***/d1"
    assert row.sample_id == name
    assert row.output.retrieved[0].doc == Document(name, hidden, {"m": hidden}, name)
    assert row.output.response == Response(hidden, sentences=[{"text": hidden, "citations": [name]}])
    assert row.output.citations == [name]


def test_sample_with_a_secret_is_rejected(url: str) -> None:
    samples = [EvaluationSample("q1", "?"), EvaluationSample("q2", "?", [Document("wiki/d1")])]
    with RunStore.open(url, secrets=["wiki"]) as store:
        with pytest.raises(BadValueError, match="sample 2 of the dataset contains a secret") as raised:
            store.create_run("one", samples, dataset_name="d", plan={})
        assert "wiki" not in str(raised.value)
        assert store.runs() == []


def test_without_secrets_nothing_is_changed(url: str) -> None:
    with RunStore.open(url) as store:
        create_run_with_secret(store, SECRET)
        assert SECRET.encode() in dump_store(store)


def test_passwords_in_urls_of_a_plan_are_redacted(url: str) -> None:
    plan = {
        "store": "postgresql://me:hunter2@host/db",
        "system": {"url": ["http://u:p@ss@h:80/x?a=b@c", "http://h:80/@x"]},
    }
    want = {"store": "postgresql://me:***@host/db", "system": {"url": ["http://u:***@c", "http://h:80/@x"]}}
    with RunStore.open(url) as store:
        made = store.create_run("one", [], dataset_name="d", plan=plan, config=plan)
        assert made.plan == made.config == want
        assert store.as_stored(plan) == store.as_stored(want) == want
        store.finish(made.run_id, message="no answer from postgresql://me:hunter2@host/db")
        assert store.get(made.run_id).message == "no answer from postgresql://me:***@host/db"


def test_password_is_never_shown(tmp_path: Path) -> None:
    from auepora_eval.errors import StoreError

    for text in (
        "postgresql://me:hunter2@127.0.0.1:1/x",
        "postgres://me@127.0.0.1:1/x?password=hunter2",
        "postgresql://me:hunter2@127.0.0.1:notaport/x",
        "mysql://me:hunter2@host/x",
    ):
        with pytest.raises(StoreError) as caught:
            RunStore.open(text)
        error: BaseException | None = caught.value
        while error is not None:
            assert "hunter2" not in str(error)
            assert "hunter2" not in repr(error)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize("place", ["before the host", "a parameter"])
@pytest.mark.parametrize("ending", ["finished", "ended early"])
def test_resume_hint_has_no_password(
    place: str,
    ending: str,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.setitem(sys.modules, "my_rag", sys)  # so that what is imported under this name is gone afterwards
    del sys.modules["my_rag"]
    plan = Project(tmp_path, 10).plan(
        args="{broken: ['1', '2', '3']}",
        run="{concurrency: 1, max_failures: 1}" if ending == "ended early" else "{concurrency: 1}",
    )
    password = quote(PASSWORD, safe="")
    assert password in postgres_url
    url = postgres_url
    if place == "a parameter":
        url = f"{postgres_url.replace(f':{password}@', '@')}?password={password}"
    with pytest.raises(SystemExit):
        main(["run", plan, "--store", url])
    captured = capsys.readouterr()
    assert "with the same --store, auepora run" in captured.err
    for form in (PASSWORD, password):
        assert form not in captured.out + captured.err
    with RunStore.open(url) as store:
        (record,) = store.runs()
    assert f"--resume --run {record.run_id}" in captured.err
    with pytest.raises(SystemExit):
        main(["run", plan, "--store", "runs of mine.sqlite"])
    assert "--store 'runs of mine.sqlite'" in capsys.readouterr().err
