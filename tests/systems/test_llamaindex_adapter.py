"""LlamaIndex: retrievers, query engines, chat engines, synthesizers."""

import asyncio
import time
from pathlib import Path
from types import ModuleType

import pytest

from auepora_eval import Document, EvaluationSample, Response, RunStore, from_llamaindex, run_system
from auepora_eval.core.types import SystemOutputs
from auepora_eval.errors import AueporaWarning, BadTypeError
from auepora_eval.systems.interfaces import as_system
from helpers.requirements import need

pytestmark = pytest.mark.xdist_group("frameworks")  # slow to import: one worker does it

SAMPLE = EvaluationSample("q1", "text number 3", history=[{"role": "user", "content": "hello"}])
TEXT = " ".join(f"Sentence {n} is about apples, pears and the number {n * n}." for n in range(20))


@pytest.fixture
def li() -> ModuleType:
    need("llama_index.core")
    from helpers import llamaindex_parts

    return llamaindex_parts


def asked(system: object, top_k: int = 3, sample: EvaluationSample = SAMPLE) -> SystemOutputs:
    made = as_system(system)
    output = made.call(sample, top_k)
    return asyncio.run(output) if made.is_async else output  # type: ignore[no-any-return]


def ids(output: SystemOutputs) -> list[str]:
    return [item.doc.doc_id for item in output.retrieved]


@pytest.mark.parametrize("use_async", [False, True], ids=["retrieve", "aretrieve"])
def test_a_retriever(li: ModuleType, use_async: bool) -> None:
    retriever = li.index().as_retriever(similarity_top_k=2)
    output = asked(from_llamaindex(retriever, use_async=use_async))
    assert ids(output)[0] == "d3"  # the text itself
    first = output.retrieved[0]
    assert (first.doc.text, first.doc.metadata, first.rank) == ("text number 3", {"page": 1}, 1)
    assert first.score == pytest.approx(1.0)
    assert len(output.retrieved) == 3
    assert retriever.similarity_top_k == 2  # it stays as it was
    assert output.response is None
    assert len(asked(from_llamaindex(retriever, own_top_k=True)).retrieved) == 2


def test_chunks_have_parents_and_spans(li: ModuleType) -> None:
    output = asked(li.index_of_chunks(TEXT).as_retriever(), 10)
    assert len(output.retrieved) > 2
    for item in output.retrieved:
        assert item.doc.parent_id == "book"
        assert item.doc.span is not None
        assert TEXT[slice(*item.doc.span)] == item.doc.text


def test_a_whole_document_has_no_parent_and_an_unknown_score_is_none(li: ModuleType) -> None:
    nodes = [li.scored(node, None) for node in li.nodes(2)] + [li.scored(li.chunk("c", "abc", "p", 4), 0.5)]
    output = asked(li.Listing(nodes))
    assert [(i.doc.doc_id, i.doc.parent_id, i.doc.span, i.score) for i in output.retrieved] == [
        ("d0", None, None, None),
        ("d1", None, None, None),
        ("c", "p", (4, 7), 0.5),
    ]


def test_a_nan_score_is_unknown_and_warns_once(li: ModuleType) -> None:
    nodes = [li.scored(node, float("nan")) for node in li.nodes(3)]
    system = from_llamaindex(li.Listing(nodes))
    with pytest.warns(AueporaWarning, match="the score nan, which is recorded as unknown") as warned:
        outputs = [asked(system) for _ in range(2)]
    assert [item.score for item in outputs[0].retrieved] == [None, None, None]
    assert len(warned) == 1


@pytest.mark.parametrize("use_async", [False, True], ids=["query", "aquery"])
def test_a_query_engine(li: ModuleType, use_async: bool) -> None:
    engine = li.index().as_query_engine(llm=li.model(), similarity_top_k=2)
    output = asked(from_llamaindex(engine, use_async=use_async))
    assert ids(output)[0] == "d3"
    assert len(output.retrieved) == 3
    assert output.response == Response("text text text")
    assert engine.retriever.similarity_top_k == 2
    own = asked(from_llamaindex(engine, own_top_k=True, use_async=use_async))
    assert len(own.retrieved) == 2


@pytest.mark.parametrize("use_async", [False, True], ids=["query", "aquery"])
def test_streaming_engines_are_read_completely(li: ModuleType, use_async: bool) -> None:
    engine = li.index().as_query_engine(llm=li.model(), streaming=True)
    output = asked(from_llamaindex(engine, use_async=use_async))
    assert output.response is not None
    assert output.response.text.split() == ["text", "text", "text"]
    assert len(output.retrieved) == 3


def test_an_engine_that_only_answers(li: ModuleType) -> None:
    output = asked(li.Shouting())
    assert (output.response, output.retrieved) == (Response("TEXT NUMBER 3"), [])


def test_a_structured_answer_keeps_its_structure(li: ModuleType) -> None:
    from llama_index.core.base.response.schema import PydanticResponse

    city = need("pydantic").create_model("City", city=(str, ...))(city="Bonn")

    class Knowing(li.Shouting):  # type: ignore[name-defined, misc]
        def custom_query(self, query_str: str) -> object:
            return PydanticResponse(response=city, source_nodes=[li.scored(li.nodes(1)[0], 1.0)])

    output = asked(Knowing())
    assert output.response == Response('{"city": "Bonn"}', {"city": "Bonn"})
    assert ids(output) == ["d0"]


def test_every_sample_is_a_new_conversation(li: ModuleType) -> None:
    engine = li.chat_engine(li.index().as_retriever(similarity_top_k=2))
    output = asked(engine)
    assert len(output.retrieved) == 2
    assert output.response is not None
    assert output.response.text == "text text text"
    asked(engine, sample=EvaluationSample("q2", "another"))
    assert [message.content for message in engine.chat_history] == ["another", "text text text"]
    asked(engine)
    assert [message.content for message in engine.chat_history][:2] == ["hello", "text number 3"]
    with pytest.raises(BadTypeError, match="one conversation and serves one caller at a time"):
        from_llamaindex(engine, use_async=True)


def test_a_retriever_with_a_synthesizer(li: ModuleType) -> None:
    retriever, synthesizer = li.index().as_retriever(), li.synthesizer()
    for system in (from_llamaindex(retriever, generator=synthesizer), (retriever, synthesizer)):
        output = asked(system, 2)
        assert (len(output.retrieved), output.response) == (2, Response("text text text"))
        assert set(output.timings) == {"retrieval", "generation"}


@pytest.mark.parametrize("use_async", [False, True], ids=["query", "aquery"])
@pytest.mark.parametrize("form", ["usage", "usage_metadata", "additional_kwargs"])
def test_an_engine_has_the_tokens_of_its_model(li: ModuleType, form: str, use_async: bool) -> None:
    engine = li.index().as_query_engine(llm=li.CountingLLM(form=form))
    output = asked(from_llamaindex(engine, use_async=use_async))
    assert output.usage["output_tokens"] == 3
    assert output.usage["input_tokens"] > 10
    assert output.usage["total_tokens"] == output.usage["input_tokens"] + 3
    assert output.usage.get("model") == ("counting" if form == "usage" else None)
    assert "first_token" not in output.timings


@pytest.mark.parametrize("use_async", [False, True], ids=["query", "aquery"])
def test_a_streaming_engine_has_its_first_token(li: ModuleType, use_async: bool) -> None:
    engine = li.index().as_query_engine(llm=li.CountingLLM(), streaming=True)
    began = time.perf_counter()
    output = asked(from_llamaindex(engine, use_async=use_async))
    assert output.response == Response("yes it is")
    assert output.usage["output_tokens"] == 3
    assert time.perf_counter() - began - output.timings["first_token"] > 0.04  # the time between its two tokens


def test_a_chat_that_completes_text_counts_its_tokens_once(li: ModuleType) -> None:
    output = asked(li.chat_engine(li.index().as_retriever(), li.CountingLLM()))
    assert output.usage["output_tokens"] == 3
    refined = li.index().as_query_engine(llm=li.CountingLLM(), response_mode="refine", similarity_top_k=3)
    assert asked(from_llamaindex(refined)).usage["output_tokens"] == 9


def test_a_synthesizer_has_the_tokens_of_its_model(li: ModuleType) -> None:
    output = asked(from_llamaindex(li.index().as_retriever(), generator=li.synthesizer(li.CountingLLM())), 2)
    assert (output.usage["output_tokens"], output.usage["model"]) == (3, "counting")


@pytest.mark.parametrize("use_async", [False, True], ids=["threads", "tasks"])
def test_questions_at_the_same_time_have_tokens_of_their_own(li: ModuleType, use_async: bool, tmp_path: Path) -> None:
    samples = [EvaluationSample(f"q{n}", "word " * n or "break", relevant_docs=[Document("d0")]) for n in range(9)]
    engine = from_llamaindex(li.index().as_query_engine(llm=li.CountingLLM()), use_async=use_async)
    path = tmp_path / "runs.sqlite"
    run = run_system(engine, samples, ["mrr"], store=path, concurrency=4)
    with RunStore.open(path) as store:
        outputs = [stored.output for stored in store.outputs(run.record.run_id)]
    assert outputs[0].usage == {}  # its model raised
    counted = [output.usage["input_tokens"] for output in outputs[1:]]
    assert [count - counted[0] for count in counted] == list(range(8))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda li: li.index(), r"is not a system: use from_llamaindex\(index.as_retriever\(\)\)"),
        (lambda li: li.nodes(1)[0], "takes a retriever, a query engine or a chat engine, not a TextNode"),
        (lambda li: (li.index().as_retriever(), li.nodes(1)[0]), "a response synthesizer, not a TextNode"),
    ],
    ids=["an index", "a node", "a node for a generator"],
)
def test_unsupported_objects(li: ModuleType, make: object, problem: str) -> None:
    with pytest.raises(BadTypeError, match=problem):
        as_system(make(li))  # type: ignore[operator]


def test_a_generator_with_an_engine_is_rejected(li: ModuleType) -> None:
    with pytest.raises(BadTypeError, match="needs a retriever, and Shouting is not one"):
        from_llamaindex(li.Shouting(), generator=li.synthesizer())


def test_exceptions_are_system_failures(li: ModuleType, tmp_path: Path) -> None:
    samples = [EvaluationSample(name, name, relevant_docs=[Document("d0")]) for name in ("break", "fine")]
    retriever = li.Listing([li.scored(node, 1.0) for node in li.nodes()])
    run = run_system(retriever, samples, ["mrr"], store=tmp_path / "runs.sqlite", concurrency=2)
    assert run.results is not None
    assert list(run.results[0].outcomes or ()) == ["system_failed:raised", "scored"]
