"""LangChain: retrievers, chains and generators of all kinds."""

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, from_langchain, run_system
from auepora_eval.core.types import SystemOutputs, UnknownRanking
from auepora_eval.errors import BadTypeError, SystemCallError
from auepora_eval.runs.replay import ReplayContext, make_replay_system
from auepora_eval.systems.interfaces import as_system
from auepora_eval.systems.langchain import langchain_generator
from helpers.requirements import need

pytestmark = pytest.mark.xdist_group("frameworks")  # slow to import: one worker does it

SAMPLE = EvaluationSample("q1", "text number 3", history=[{"role": "user", "content": "hello"}, {"other": 1}])


@pytest.fixture
def lc() -> ModuleType:
    need("langchain_core")
    from helpers import langchain_parts

    return langchain_parts


def asked(system: object, top_k: int = 3, sample: EvaluationSample = SAMPLE) -> SystemOutputs:
    """What a system answers, whichever way it is called."""
    made = as_system(system)
    output = made.call(sample, top_k)
    return asyncio.run(output) if made.is_async else output  # type: ignore[no-any-return]


def noted(seen: list[Any], value: Any) -> str:
    seen.append(value)
    return "a"


def ids(output: SystemOutputs) -> list[str]:
    return [item.doc.doc_id for item in output.retrieved]


@pytest.mark.parametrize("use_async", [False, True], ids=["invoke", "ainvoke"])
def test_a_vector_store_retriever(lc: ModuleType, use_async: bool) -> None:
    output = asked(from_langchain(lc.vector_store().as_retriever(), use_async=use_async))
    assert ids(output)[0] == "d3"  # the text itself
    assert len(output.retrieved) == 3  # its own depth is 4
    first = output.retrieved[0]
    assert (first.doc.text, first.doc.metadata, first.score, first.rank) == ("text number 3", {"page": 1}, None, 1)
    assert output.response is None
    assert list(output.timings) == ["retrieval"]


def test_a_retriever_is_a_system_and_is_not_modified(lc: ModuleType) -> None:
    retriever = lc.vector_store().as_retriever(search_kwargs={"k": 2})
    assert len(asked(retriever, 5).retrieved) == 5
    assert retriever.search_kwargs == {"k": 2}
    assert len(asked(from_langchain(retriever, own_top_k=True), 5).retrieved) == 2


def test_mmr_fetches_enough_candidates(lc: ModuleType) -> None:
    retriever = lc.vector_store().as_retriever(search_type="mmr", search_kwargs={"fetch_k": 2})
    assert len(asked(retriever, 5).retrieved) == 5


@pytest.mark.parametrize(
    ("kind", "top_k", "count"),
    [("WithField", 4, 4), ("WithParameter", 4, 4), ("Listing", 4, 4), ("WithField", 9, 6)],
    ids=["a field k", "an argument top_k", "no way: what is too much is cut", "no more than there are"],
)
def test_top_k_is_passed_on(lc: ModuleType, kind: str, top_k: int, count: int) -> None:
    retriever = getattr(lc, kind)(contents=lc.documents())
    assert ids(asked(retriever, top_k)) == [f"d{n}" for n in range(count)]
    assert getattr(retriever, "k", 2) == 2


@pytest.mark.parametrize(
    ("metadata", "given", "want"),
    [
        ({}, "x", ("x", None, None)),
        ({"id": 7}, None, ("7", None, None)),
        ({"doc_id": "b"}, None, ("b", None, None)),
        ({"source": "a.txt"}, None, ("a.txt", None, None)),
        ({"source": "a.txt"}, "x", ("x", None, None)),
        ({"source": "a.txt", "start_index": 10}, "x", ("x", "a.txt", (10, 14))),
        ({"parent_id": "p", "start_index": 0}, "x", ("x", "p", (0, 4))),
        ({"parent_id": "p"}, "x", ("x", "p", None)),
        ({"start_index": 5}, "x", ("x", None, None)),
        ({"parent_id": "p", "start_index": -1}, "x", ("x", "p", None)),
    ],
    ids=[
        "its own id",
        "an id in the metadata, made a text",
        "a doc_id",
        "the source for want of anything else",
        "a source alone is no parent",
        "a chunk of a source",
        "a chunk of a parent",
        "a parent and no place in it",
        "a place in nothing",
        "a splitter that did not find the place",
    ],
)
def test_ids_parents_and_spans(lc: ModuleType, metadata: Any, given: str | None, want: Any) -> None:
    document = lc.Document("abcd", id=given, metadata=metadata)
    doc = asked(lc.Listing(contents=[document])).retrieved[0].doc
    assert (doc.doc_id, doc.parent_id, doc.span) == want


def test_custom_id_and_parent_keys(lc: ModuleType) -> None:
    documents = [lc.Document("abcd", id="uuid", metadata={"nr": 12, "book": "b"})]
    system = from_langchain(lc.Listing(contents=documents), id_key="nr", parent_key="book")
    doc = asked(system).retrieved[0].doc
    assert (doc.doc_id, doc.parent_id) == ("12", "b")
    with pytest.raises(SystemCallError, match=r"bad_output: a document has no 'isbn' in its metadata, which holds: bo"):
        asked(from_langchain(lc.Listing(contents=documents), id_key="isbn"))


@pytest.mark.parametrize("use_async", [False, True], ids=["invoke", "ainvoke"])
@pytest.mark.parametrize("kind", ["text_chain", "dict_chain", "parallel_chain"])
def test_chains(lc: ModuleType, kind: str, use_async: bool) -> None:
    chain = getattr(lc, kind)(lc.WithField(contents=lc.documents()), lc.model("yes", tokens=(5, 2)))
    output = asked(from_langchain(chain, use_async=use_async))
    assert ids(output) == ["d0", "d1"]  # what the answer was made from; a chain keeps its own depth
    assert output.response == Response("yes")
    assert output.usage == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    assert set(output.timings) == {"retrieval", "generation"}
    (step,) = output.steps
    assert (step["query"], step["retrieved"]) == ("text number 3", ["d0", "d1"])
    assert step["timing"] == output.timings["retrieval"]


def test_the_outermost_retrieval_counts(lc: ModuleType) -> None:
    retriever = lc.Asking(inner=lc.Listing(contents=lc.documents(3)))
    output = asked(lc.text_chain(retriever, lc.model()))
    assert ids(output) == ["d2", "d1", "d0"]
    assert len(output.steps) == 1


def test_the_last_non_empty_retrieval_counts(lc: ModuleType) -> None:
    rankings: list[Any] = [lc.documents(2), lc.documents()[4:], []]
    first, second, third = (lc.Listing(contents=contents) for contents in rankings)
    output = asked(lc.function(lambda text: [one.invoke(text) for one in (first, second, third)] and "done"))
    assert ids(output) == ["d4", "d5"]
    assert [step["retrieved"] for step in output.steps] == [["d0", "d1"], ["d4", "d5"], []]
    assert output.response == Response("done")


def test_an_answer_without_retrieval_has_an_unknown_ranking(lc: ModuleType) -> None:
    output = asked(lc.chat_chain(lc.model()))
    assert isinstance(output.retrieved, UnknownRanking)
    assert output.response == Response("yes")
    assert isinstance(asked(from_langchain(lc.model())).retrieved, UnknownRanking)


REPLIES: list[Any] = [  # what the chain returns, options, answer or error
    ({"result": "a", "source_documents": []}, {}, Response("a")),
    ({"output": "a"}, {}, Response("a")),
    ({"reply": "a"}, {"answer_key": "reply"}, Response("a")),
    ({"answer": {"x": 1}}, {}, Response('{"x": 1}', {"x": 1})),
    ({"messages": [("user", "q"), "bye"]}, {}, Response("bye")),
    ({"reply": "a"}, {}, "the chain returned the keys 'reply', and no answer under a usual name: .*answer_key='...'"),
    ({"answer": "a"}, {"answer_key": "reply"}, "no answer at 'reply'"),
    ({"answer": "a"}, {"documents_key": "found"}, "no documents at 'found': name it with .*documents_key='...'"),
    ("a", {"documents_key": "found"}, "the chain returned str, and no documents at 'found'"),
    (7, {}, "the chain returned int, and no text"),
]


@pytest.mark.parametrize(("reply", "options", "want"), REPLIES, ids=[str(row[:2]) for row in REPLIES])
def test_reply_formats(lc: ModuleType, reply: Any, options: Any, want: Any) -> None:
    system = from_langchain(lc.function(lambda _: reply), **options)
    if isinstance(want, Response):
        assert asked(system).response == want
    else:
        with pytest.raises(SystemCallError, match=f"bad_output: .*{want}"):
            asked(system)


def test_messages_models_and_bare_documents(lc: ModuleType) -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image_url", "image_url": "x"}]
    assert asked(lc.function(lambda _: lc.AIMessage(parts))).response == Response("ab")
    model = need("pydantic").create_model("Reply", city=(str, ...))
    assert asked(lc.function(lambda _: model(city="Bonn"))).response == Response('{"city": "Bonn"}', {"city": "Bonn"})
    bare = asked(lc.Listing(contents=lc.documents(2)).with_config(tags=["x"]))
    assert (ids(bare), bare.response) == (["d0", "d1"], None)
    nothing = asked(lc.Listing(contents=[]).with_config(tags=["x"]))
    assert (nothing.retrieved, nothing.response) == ([], None)
    named = from_langchain(
        lc.function(lambda _: {"found": lc.documents(1), "answer": "a", "context": "text"}), documents_key="found"
    )
    assert ids(asked(named)) == ["d0"]


INPUTS: list[Any] = [  # names of the prompt, options, what is given or the error
    (["question"], {}, {"question": "text number 3"}),
    (["city"], {}, {"city": "text number 3"}),
    (["city", "query"], {}, "needs 'city' besides 'query': if that is the context, .*generator=runnable"),
    (["city", "country"], {}, "takes 'city', 'country', and the question key is ambiguous"),
    (["city", "country"], {"input_key": "city"}, "needs 'country' besides 'city'"),
]


@pytest.mark.parametrize(("names", "options", "want"), INPUTS, ids=[str(row[:2]) for row in INPUTS])
def test_question_keys(lc: ModuleType, names: list[str], options: Any, want: Any) -> None:
    seen: list[Any] = []
    chain = lc.prompt(*names) | lc.function(lambda value: noted(seen, value.to_string()))
    if isinstance(want, str):
        with pytest.raises(BadTypeError, match=want):
            from_langchain(chain, **options)
    else:
        asked(from_langchain(chain, **options))
        assert seen == [f"Human: {next(iter(want.values()))}"]


def test_a_dict_without_declared_keys_needs_input_key(lc: ModuleType) -> None:
    def answer(given: dict[str, Any]) -> str:
        return str(given["q"])

    with pytest.raises(BadTypeError, match=r"takes a dict without declared keys.*input_key='question'"):
        from_langchain(lc.function(answer))
    assert asked(from_langchain(lc.function(answer), input_key="q")).response == Response("text number 3")


def test_earlier_turns_fill_the_history_key(lc: ModuleType) -> None:
    seen: list[Any] = []
    chain = lc.chat_chain(lc.function(lambda value: noted(seen, value.to_string())))
    asked(chain)
    assert seen == ["Human: hello\nHuman: text number 3"]
    talk = from_langchain(lc.function(lambda given: noted(seen, given["messages"])), input_key="messages")
    asked(talk)
    assert seen[1] == [("user", "hello"), ("user", "text number 3")]


@pytest.mark.parametrize("use_async", [False, True], ids=["invoke", "ainvoke"])
def test_a_retriever_with_a_generating_runnable(lc: ModuleType, use_async: bool) -> None:
    generator = lc.prompt("context", "question") | lc.model("yes", tokens=(3, 1))
    output = asked(from_langchain(lc.Listing(contents=lc.documents()), generator=generator, use_async=use_async), 2)
    assert (ids(output), output.response and output.response.text) == (["d0", "d1"], "yes")
    assert set(output.timings) == {"retrieval", "generation"}
    assert output.response is not None
    assert output.response.metadata["usage"]["total_tokens"] == 4


def test_a_pair_and_the_context_of_its_generator(lc: ModuleType) -> None:
    seen: list[Any] = []
    retriever, generator = lc.Listing(contents=lc.documents(2)), lc.function(lambda given: noted(seen, given))
    assert asked((retriever, generator)).response == Response("a")
    assert seen == [{"question": "text number 3", "context": "text number 0\n\ntext number 1"}]
    own = langchain_generator(generator, context=lambda documents: [one.doc_id for one in documents])
    asked((retriever, own))
    assert seen[1]["context"] == ["d0", "d1"]


def test_a_pair_can_be_replayed_on_other_documents(lc: ModuleType) -> None:
    system = from_langchain(lc.Listing(contents=lc.documents(2)), generator=lc.function(lambda given: given["context"]))
    (kept,) = from_langchain(lc.Listing(contents=[lc.Document("other", id="o")])).retrieve("q")
    output = asked(make_replay_system(system, {"q1": ReplayContext([kept])}))
    assert (ids(output), output.response) == (["o"], Response("other"))


def test_a_generator_needs_a_context_key(lc: ModuleType) -> None:
    with pytest.raises(BadTypeError, match=r"under one of the names 'context', .* takes 'question'"):
        langchain_generator(lc.prompt("question") | lc.model())
    with pytest.raises(SystemCallError, match="the generator returned a int"):
        langchain_generator(lc.function(lambda _: 3)).generate("q", [Document("d")])


def test_unsupported_objects(lc: ModuleType) -> None:
    with pytest.raises(BadTypeError, match=r"from_langchain\(\) takes a retriever, .* not a Document"):
        as_system(lc.Document("text"))
    with pytest.raises(BadTypeError, match="answer_key is for chains, and Listing is a retriever"):
        from_langchain(lc.Listing(contents=[]), answer_key="answer")
    with pytest.raises(BadTypeError, match="a generator needs a retriever, and RunnableLambda is not one"):
        from_langchain(lc.function(str), generator=lc.function(str))


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (["a text"], "among the documents is a str, which is none"),
        ("a text", "documents were expected, and a str came back"),
        ({"ada": "a text"}, "documents were expected, and a dict came back"),
    ],
)
def test_invalid_documents(lc: ModuleType, reply: Any, problem: str) -> None:
    with pytest.raises(SystemCallError, match=f"bad_output: {problem}"):
        from_langchain(lc.Replying(contents=[], reply=reply)).retrieve("q", top_k=3)


def test_exceptions_are_system_failures(lc: ModuleType, tmp_path: Path) -> None:
    samples = [EvaluationSample("a", "break", relevant_docs=[Document("d0")])]
    samples += [EvaluationSample("b", "fine", relevant_docs=[Document("d0")])]
    run = run_system(lc.Listing(contents=lc.documents()), samples, ["mrr"], store=tmp_path / "runs.sqlite", timeout=30)
    assert run.results is not None
    assert list(run.results[0].outcomes or ()) == ["system_failed:raised", "scored"]
    assert run.results[0].value == 1 / 2


def test_objects_with_the_system_interface_are_not_adapted(lc: ModuleType) -> None:
    class Both(lc.Listing):  # type: ignore[name-defined, misc]
        def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
            return SystemOutputs([], Response(sample.sample_id))

    assert asked(Both(contents=[])).response == Response("q1")
