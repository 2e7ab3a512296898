"""Embedders: options, identities, and an endpoint."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import AueporaWarning, EvaluationSample, Response, SystemOutputs, evaluate, metric
from auepora_eval.core.registry import spec_of, use_resources
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.features.embeddings import InferenceFailure
from auepora_eval.models.embedders import (
    OpenAIEmbedder,
    PythonEmbedder,
    SentenceTransformerEmbedder,
    build_embedder,
    embedder_name,
    parse_embedder,
)
from helpers.letter_vectors import letters
from helpers.requirements import need
from helpers.tiny_models import made

KEY = "sk-not-a-real-key-0123456789"
SAMPLE = EvaluationSample("q1", "why?", reference_answer=Response("cab"))
OUTPUT = SystemOutputs([], Response("abc"))


class Endpoint(BaseHTTPRequestHandler):
    """Speaks OpenAI's embeddings protocol: vectors by letter, in reverse order; says no to what it is told to."""

    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        answer: dict[str, Any]
        if any("refused" in text for text in body["input"]):
            status, answer = 400, {"error": {"message": f"not this, {self.headers['Authorization']}"}}
        else:
            rows = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(letters(body["input"]))]
            status, answer = 200, {"object": "list", "data": rows[::-1], "model": body["model"]}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def endpoint() -> Iterator[tuple[str, list[Any]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", server.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_endpoint_gets_each_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with endpoint() as (url, asked):
        options = {"model": "letters", "base_url": url, "api_key_env": "MY_KEY", "batch_size": 2}
        cached = {**options, "cache": str(tmp_path / "vectors.sqlite")}
        built = metric("embedding_similarity", embed_fn={"openai_embeddings": cached})
        rows = [EvaluationSample(f"q{at}", "why?", reference_answer=Response(text)) for at, text in enumerate("aab")]
        outs: list[Any] = [SystemOutputs([], Response(text)) for text in ("a", "ab", "c")]
        (result,) = evaluate(rows, outs, [built])
        assert list(result.scores or ()) == pytest.approx([1, 2**-0.5, 0])
        assert [body["input"] for _, _, body in asked] == [["a", "ab"], ["b", "c"]]
        assert {key for _, key, _ in asked} == {f"Bearer {KEY}"}
        assert asked[0][2]["encoding_format"] == "float"
        asked.clear()
        assert evaluate(rows, outs, [built])[0].value == result.value
        assert asked == []  # paid for once
        assert KEY.encode() not in (tmp_path / "vectors.sqlite").read_bytes()
        with pytest.warns(AueporaWarning, match="the endpoint gave no vectors") as caught:
            (result,) = evaluate(
                [SAMPLE],
                [SystemOutputs([], Response("refused"))],
                [metric("embedding_similarity", embed_fn={"openai_embeddings": options})],
            )
        assert list(result.outcomes or ()) == ["measure_failed:embed_failed"]
        assert KEY not in str(caught[0].message)


def test_a_rejected_text_does_not_fail_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with endpoint() as (url, asked):
        embedder = OpenAIEmbedder("letters", base_url=url)
        rows = embedder.embed_batch(["a", "b", "refused", "c"]).rows
        assert [isinstance(row, InferenceFailure) for row in rows] == [False, False, True, False]
        assert [len(body["input"]) for _, _, body in asked] == [4, 2, 2, 1, 1]
        asked.clear()
        rows = embedder.embed_batch(["refused"] * 200).rows  # all of them: it is not asked about each
        assert all(isinstance(row, InferenceFailure) for row in rows)
        assert len(asked) < 50


def test_an_address_with_a_password_is_not_in_the_signature() -> None:
    embedder = OpenAIEmbedder("m", base_url="http://me:opensesame@127.0.0.1/v1")
    assert "opensesame" not in embedder_name(embedder)
    assert "127.0.0.1" in embedder_name(embedder)


@pytest.mark.part("models")
def test_a_loaded_model_is_identified_by_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    package = need("sentence_transformers")
    model = package.SentenceTransformer(made("sbert"), device="cpu")
    embedder = parse_embedder(model)
    assert parse_embedder(model.encode) == embedder  # the method of the model, as many pass it
    assert embedder.identity == parse_embedder(package.SentenceTransformer(made("sbert"), device="cpu")).identity
    texts = ["the cat", "a dog"]
    want = model.encode(texts)
    model.train()  # as it is left after training: dropout is on
    assert np.allclose(np.array(embedder.embed_batch(texts).rows), want, atol=1e-6)
    model.truncate_dim = 3
    assert np.array(embedder.embed_batch(texts).rows).shape == (2, 3)
    next(iter(model.parameters())).data += 1
    assert parse_embedder(model).identity != embedder.identity


async def later(texts: list[str]) -> list[list[float]]:
    return [[1.0]] * len(texts)


def test_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    built: Any = metric("embedding_similarity", embed_fn={"openai_embeddings": {"model": "m", "api_key_env": "MY_KEY"}})
    with pytest.raises(BadValueError, match="the environment variable MY_KEY is not set"):
        built.require_ready()
    with pytest.raises(BadValueError, match="the environment variable MY_KEY is not set"):
        built.compute([SAMPLE], [OUTPUT])
    monkeypatch.setenv("MY_KEY", "two\nlines")
    with pytest.raises(BadValueError, match="what the environment variable MY_KEY holds is no key"):
        built.require_ready()
    for wrong in (KEY, "", 5):
        with pytest.raises(BadValueError, match="api_key_env must"):
            OpenAIEmbedder("m", api_key_env=wrong)  # type: ignore[arg-type]


NAMED: list[tuple[Any, str, str]] = [
    ({"python": "helpers.letter_vectors:letters"}, "helpers.letter_vectors:letters", "a function"),
    (
        {"python": "helpers.letter_vectors:Scaled", "args": {"without": "ab"}},
        "helpers.letter_vectors:Scaled without='ab'",
        "a class and what it is given",
    ),
    ({"sentence_transformers": {"model": "org/name"}}, "org/name", "a model"),
    ({"sentence_transformers": {"model": "org/name", "precision": "float16"}}, "org/name float16", "half as exact"),
    ({"openai_embeddings": {"model": "small", "dimensions": 64}}, "small 64", "an endpoint"),
]


@pytest.mark.parametrize(("option", "shown"), [row[:2] for row in NAMED], ids=[row[2] for row in NAMED])
def test_specs_round_trip(option: Any, shown: str) -> None:
    built = metric("embedding_similarity", embed_fn=option)
    assert spec_of(built) == {"embedding_similarity": {"embed_fn": option}}
    assert metric(spec_of(built)) == built
    assert str(built.signature) == f"embedding_similarity|embed:{shown}|v1"  # type: ignore[attr-defined]


WRONG: list[tuple[Any, str, str]] = [
    (5, "embed_fn must be a function from a list of texts", "a number"),
    ({"hub": {}}, "there is no kind of embedder 'hub'", "another kind"),
    ({"sentence_transformers": {"modell": "m"}}, "no option 'modell'; did you mean 'model'", "a slip"),
    ({"sentence_transformers": {}}, "needs its option 'model'", "nothing named"),
    ({"sentence_transformers": ["m"]}, "takes options", "a list"),
    ({"python": "letter_vectors"}, "python: takes an import path, module:name", "no object"),
    ({"python": "helpers.letter_vectors:letters", "args": 5}, "args must be a mapping", "args that are none"),
    ({"openai_embeddings": {"model": "m", "base_url": "here"}}, "base_url must be an address", "an address"),
    ({"use": ""}, "use: takes the name of a resource", "no resource"),
]


@pytest.mark.parametrize(("option", "message"), [row[:2] for row in WRONG], ids=[row[2] for row in WRONG])
def test_invalid_options(option: Any, message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        metric("embedding_similarity", embed_fn=option)


MISSING = [
    ("no_such_module:x", "there is no module 'no_such_module'"),
    ("helpers.letter_vectors:leters", "'helpers.letter_vectors' has no 'leters'; did you mean 'letters'"),
]


@pytest.mark.parametrize(("path", "message"), MISSING)
def test_invalid_import_paths(path: str, message: str) -> None:
    built: Any = metric("embedding_similarity", embed_fn={"python": path})  # it can be named and compared
    for use in (built.require_ready, lambda: built.compute([SAMPLE], [OUTPUT])):
        with pytest.raises(BadValueError, match=message):
            use()


def test_a_resource_of_the_plan() -> None:
    spec = {"embedding_similarity": {"embed_fn": {"use": "vectors"}}}
    with use_resources({"vectors": letters}):
        built: Any = metric(spec)
    assert built.compute([SAMPLE], [OUTPUT]).value == pytest.approx(1)
    assert spec_of(built) == spec
    with use_resources({"vectors": build_embedder("sentence_transformers", {"model": "org/name"})}):
        assert "|embed:org/name|" in str(metric(spec).signature)  # type: ignore[attr-defined]
    alone: Any = metric(spec)
    with pytest.raises(BadValueError, match="embed_fn is the resource 'vectors' of a plan, which is not available"):
        alone.compute([SAMPLE], [OUTPUT])


def test_other_shapes() -> None:
    assert parse_embedder("org/name") == SentenceTransformerEmbedder("org/name") == parse_embedder(Path("org/name"))
    assert embedder_name(letters) == "helpers.letter_vectors.letters"
    assert isinstance(parse_embedder({"python": "a:b"}), PythonEmbedder)
    assert np.array_equal(parse_embedder(letters)(["ab"]), letters(["ab"]))
    with pytest.raises(BadTypeError, match="embed_fn is an async function"):
        parse_embedder(later)
    with pytest.raises(BadTypeError, match="embed must be"):
        parse_embedder(None, what="embed")
