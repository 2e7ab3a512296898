"""Haystack: pipelines with detected or named sockets, and single components."""

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, from_haystack, run_system
from auepora_eval.core.types import SystemOutputs, UnknownRanking
from auepora_eval.errors import BadTypeError, SystemCallError
from auepora_eval.systems.interfaces import as_system
from helpers.requirements import need

pytestmark = pytest.mark.xdist_group("frameworks")  # slow to import: one worker does it

SAMPLE = EvaluationSample("q1", "apples and pears", history=[{"role": "assistant", "content": "hello"}])
TEXT = "The first sentence is about apples.\nThen follows one about pears, and it is longer than the first one.\nEnd."


@pytest.fixture
def hs() -> ModuleType:
    need("haystack")
    from helpers import haystack_parts

    return haystack_parts


def asked(system: object, top_k: int = 3, sample: EvaluationSample = SAMPLE) -> SystemOutputs:
    made = as_system(system)
    output = made.call(sample, top_k)
    return asyncio.run(output) if made.is_async else output  # type: ignore[no-any-return]


def ids(output: SystemOutputs) -> list[str]:
    return [item.doc.doc_id for item in output.retrieved]


@pytest.mark.parametrize("alone", [False, True], ids=["in a pipeline", "alone"])
def test_a_retriever(hs: ModuleType, alone: bool) -> None:
    retriever = hs.bm25()
    output = asked(retriever if alone else hs.pipeline(retriever=retriever), 4)
    assert len(output.retrieved) == 4
    assert retriever.top_k == 2
    first = output.retrieved[0]
    assert first.doc.text == hs.TEXTS[first.doc.doc_id]
    assert first.score is not None
    assert output.response is None
    assert list(output.timings) == ["retrieval"]
    again = from_haystack(hs.pipeline(retriever=hs.bm25()), own_top_k=True)
    assert len(asked(again, 4).retrieved) == 2


@pytest.mark.parametrize("use_async", [False, True], ids=["run", "run_async"])
def test_a_pipeline_that_answers(hs: ModuleType, use_async: bool) -> None:
    pipeline = hs.rag()
    output = asked(from_haystack(pipeline, use_async=use_async))
    assert len(output.retrieved) == 3  # its own depth is 2
    assert output.response == Response("read 3")
    assert output.usage == {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    own = asked(from_haystack(pipeline, own_top_k=True, use_async=use_async))
    assert (len(own.retrieved), own.response) == (2, Response("read 2"))


def test_the_last_component_with_documents_counts(hs: ModuleType) -> None:
    output = asked(hs.rag_with_answers(), 2)
    found = asked(hs.bm25(), 6)
    assert ids(output) == ids(found)[::-1][:2]  # the ranker's, which was told how many
    assert output.response == Response("read 2")
    assert output.usage["total_tokens"] == 3
    shallow = asked(from_haystack(hs.rag_with_answers(), retriever="retriever"), 4)
    assert ids(shallow) == ids(found)[:4]


def test_joined_documents(hs: ModuleType) -> None:
    assert set(ids(asked(hs.hybrid(), 6))) >= {"d0", "d1"}


def test_ambiguous_components(hs: ModuleType) -> None:
    pipeline = hs.pipeline(one=hs.bm25(), two=hs.Listing(hs.documents(1)))
    with pytest.raises(
        BadTypeError,
        match=r"several components of the pipeline give documents \(one.documents, two.documents\): "
        r"select one with from_haystack\(pipeline, retriever='one'\)",
    ):
        as_system(pipeline)
    assert ids(asked(from_haystack(pipeline, retriever="two"))) == ["d0"]
    assert ids(asked(from_haystack(pipeline, retriever=["two.documents", "one"]))) == ["d0"]
    both = hs.pipeline(one=hs.MetaGenerator(), two=hs.Silent())
    with pytest.raises(BadTypeError, match=r"give answers \(one.replies, two.replies\): .*generator='one'"):
        from_haystack(both)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retriever": "retreiver"}, "retriever='retreiver' is not in the pipeline; it has: retriever.docum"),
        ({"generator": "llm.text"}, r"generator='llm.text' is not in .*llm.replies"),
        ({"inputs": "prompt"}, "inputs='prompt' is not in the pipeline; it has: .*prompt.question"),
        (
            {"inputs": "retriever.query"},
            "nothing is given to prompt.question: set .* inputs=.*free inputs: retriever.q",
        ),
        ({"inputs": []}, "nothing is given to retriever.query, prompt.question"),
    ],
    ids=["a slip", "no such output", "which input?", "an input forgotten", "none at all"],
)
def test_unknown_names(hs: ModuleType, options: Any, problem: str) -> None:
    with pytest.raises(BadTypeError, match=problem):
        from_haystack(hs.rag(), **options)


def test_inputs_and_data_by_name(hs: ModuleType) -> None:
    pipeline = hs.pipeline(
        ("prompt.prompt", "llm.messages"), prompt=hs.prompt_builder("{{ city }} {{ question }}"), llm=hs.Answering()
    )
    with pytest.raises(BadTypeError, match=r"nothing is given to prompt.city: .* data=\{...\}"):
        as_system(pipeline)
    for inputs in (None, ["prompt.question"]):
        output = asked(from_haystack(pipeline, data={"prompt": {"city": "is about"}}, inputs=inputs))
        assert output.response == Response("read 1")
        assert isinstance(output.retrieved, UnknownRanking)  # nothing in it says


def test_the_only_input_takes_the_question(hs: ModuleType) -> None:
    pipeline = hs.pipeline(
        ("prompt.prompt", "llm.messages"), prompt=hs.prompt_builder("is about {{ frage }}"), llm=hs.Answering()
    )
    assert asked(pipeline).response == Response("read 1")


def test_messages_are_sent_with_the_earlier_turns(hs: ModuleType) -> None:
    output = asked(hs.pipeline(llm=hs.Answering()))
    assert output.usage["input_tokens"] == 2
    assert output.response == Response("read 0")


def test_string_replies_with_token_usage(hs: ModuleType) -> None:
    output = asked(hs.MetaGenerator())
    assert output.response == Response("APPLES AND PEARS")
    assert output.usage == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def test_no_answer_is_a_failure(hs: ModuleType) -> None:
    with pytest.raises(SystemCallError, match=r"bad_output: the pipeline gave no answer at llm.replies"):
        asked(hs.pipeline(llm=hs.Silent()))


@pytest.mark.parametrize("recursively", [False, True], ids=["DocumentSplitter", "RecursiveDocumentSplitter"])
def test_chunks_have_parents_and_spans(hs: ModuleType, recursively: bool) -> None:
    output = asked(hs.Listing(hs.cut(TEXT, recursively=recursively)), 20)
    assert len(output.retrieved) > 2
    for item in output.retrieved:
        assert item.doc.parent_id == "book"
        assert item.doc.span is not None
        assert TEXT[slice(*item.doc.span)] == item.doc.text


def test_documents_without_text_or_parent(hs: ModuleType) -> None:
    documents = [hs.document("a", None, 0.5, split_idx_start=3), hs.document("b", "text", parent_id="p")]
    output = asked(hs.Listing(documents))
    assert [(i.doc.text, i.doc.parent_id, i.doc.span, i.score) for i in output.retrieved] == [
        ("", None, None, 0.5),
        ("text", "p", None, None),
    ]


def test_models_are_loaded_once(hs: ModuleType) -> None:
    component = hs.Listing(hs.documents())
    system = from_haystack(component)
    for _ in range(3):
        system.retrieve(SAMPLE.query, top_k=2)
    assert component.warmed == 1


def test_unsupported_objects(hs: ModuleType) -> None:
    with pytest.raises(BadTypeError, match=r"from_haystack\(\) takes a pipeline or a component, not a Document"):
        as_system(hs.documents(1)[0])
    with pytest.raises(
        BadTypeError, match=r"has no output of documents or answers: .*retriever='...', generator='...'"
    ):
        as_system(hs.pipeline(prompt=hs.prompt_builder("{{ question }}")))
    with pytest.raises(BadTypeError, match=r"a Listing has no run_async\(\)"):
        from_haystack(hs.Listing([]), use_async=True)


def test_a_component_awaited(hs: ModuleType) -> None:
    assert len(asked(from_haystack(hs.bm25(), use_async=True), 4).retrieved) == 4


def test_exceptions_are_system_failures(hs: ModuleType, tmp_path: Path) -> None:
    samples = [EvaluationSample(name, f"{name} apples", relevant_docs=[Document("d0")]) for name in ("break", "fine")]
    run = run_system(hs.rag(), samples, ["empty_result_rate"], store=tmp_path / "runs.sqlite", concurrency=2)
    assert run.results is not None
    assert [outcome.partition(":")[0] for outcome in run.results[0].outcomes or ()] == ["system_failed", "scored"]
