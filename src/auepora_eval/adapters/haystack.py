"""Haystack pipelines and single components as systems."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import BadTypeError, SystemCallError
from ..core.types import EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking
from .detection import detect_framework, is_instance_of
from .documents import DocumentMapper, FrameworkDocument, span_from
from .replies import earlier_turns, extract_response, sum_token_usage
from .systems import pipeline_system, provenance, retriever_system
from .versions import HAYSTACK, require_tested
from .wiring import (
    Socket,
    answer_sockets,
    document_sockets,
    missing_inputs,
    parse_sockets,
    question_sockets,
    takes_messages,
)

__all__ = ["from_haystack"]

_ALONE = "component"


def from_haystack(
    pipeline: Any,
    *,
    inputs: str | Sequence[str] | None = None,
    retriever: str | Sequence[str] | None = None,
    generator: str | Sequence[str] | None = None,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    id_key: str | None = None,
    parent_key: str | None = None,
    own_top_k: bool = False,
    use_async: bool = False,
    any_version: bool = False,
) -> Any:
    """A Haystack pipeline, or a single component such as a retriever, as a system.

    ``inputs`` says where the question goes (``["retriever.query", "prompt_builder.question"]``), ``retriever`` which
    component's documents count as retrieved, ``generator`` which one's answer is the answer; each is found by itself
    where only one can be meant, and may be several, of which the first that ran counts. ``data`` is given to the
    pipeline with every question. Where nothing answers, the system gives documents alone.

    ``id_key`` and ``parent_key`` name the meta that holds a document's id and that of the document it was cut from. The
    component that gives the documents is asked for as many as the run wants, if it has an input ``top_k``;
    ``own_top_k`` leaves it as it is. ``use_async`` calls ``run_async``, else it is ``run`` in threads.
    """
    version = require_tested(HAYSTACK, any_version=any_version)
    config = provenance(HAYSTACK, version, pipeline)
    mapper = DocumentMapper(_read_document, id_key=id_key, parent_key=parent_key)
    if is_instance_of(pipeline, HAYSTACK, "PipelineBase"):
        runner: Any = pipeline
    elif detect_framework(pipeline) is HAYSTACK and callable(getattr(pipeline, "run", None)):
        runner = _SingleComponent(pipeline)
    else:
        kind = type(pipeline).__name__
        raise BadTypeError(f"from_haystack() takes a pipeline or a component, not a {kind}")
    if use_async and not callable(getattr(runner, "run_async", None)):
        raise BadTypeError(f"a {type(pipeline).__name__} has no run_async(): leave use_async out, or use AsyncPipeline")
    wired = _HaystackPipeline(runner, inputs, retriever, generator, data or {}, mapper, own_top_k)
    if wired.answers:
        return pipeline_system(wired, config, pipeline, use_async=use_async)
    return retriever_system(wired, config, pipeline, use_async=use_async)


def _read_document(document: Any) -> FrameworkDocument:
    meta = document.meta or {}
    parent = next((meta[key] for key in ("source_id", "parent_id") if meta.get(key) is not None), None)
    span = None if parent is None else span_from(meta.get("split_idx_start"), document.content)
    return FrameworkDocument(document.id, document.content, meta, document.score, parent_id=parent, span=span)


class _SingleComponent:
    """A component in the form of a pipeline of which it is all."""

    def __init__(self, component: Any) -> None:
        self._component = component

    def inputs(self) -> dict[str, dict[str, Any]]:
        # The framework has no public name for these; it looks them up itself in the same way.
        sockets = self._component.__haystack_input__._sockets_dict
        return {_ALONE: {name: {"type": one.type, "is_mandatory": one.is_mandatory} for name, one in sockets.items()}}

    def outputs(self, **_: bool) -> dict[str, dict[str, Any]]:
        sockets = self._component.__haystack_output__._sockets_dict
        return {_ALONE: {name: {"type": one.type} for name, one in sockets.items()}}

    def warm_up(self) -> None:
        warm_up = getattr(self._component, "warm_up", None)
        if callable(warm_up):
            warm_up()

    def run(self, data: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        return {_ALONE: self._component.run(**data[_ALONE])}

    @property
    def run_async(self) -> Any:
        own = getattr(self._component, "run_async", None)
        if own is None:
            return None

        async def run_async(data: Mapping[str, Any], **_: Any) -> dict[str, Any]:
            return {_ALONE: await own(**data[_ALONE])}

        return run_async


class _HaystackPipeline:
    """A pipeline of which it is known where the question goes in and where documents and answers come out."""

    def __init__(
        self,
        pipeline: Any,
        inputs: str | Sequence[str] | None,
        retriever: str | Sequence[str] | None,
        generator: str | Sequence[str] | None,
        data: Mapping[str, Mapping[str, Any]],
        mapper: DocumentMapper,
        own_top_k: bool,
    ) -> None:
        self._pipeline, self._data, self._mapper, self._own = pipeline, data, mapper, own_top_k
        self._free = pipeline.inputs()
        outputs = pipeline.outputs(include_components_with_connected_outputs=True)
        after = _descendants(pipeline)
        self._questions = (
            question_sockets(self._free, data) if inputs is None else parse_sockets(inputs, self._free, "inputs")
        )
        self._finders = _places(retriever, outputs, document_sockets(outputs, after), "retriever", "documents")
        self.answers = _places(generator, outputs, answer_sockets(outputs, after), "generator", "answers")
        """Where answers come out; empty where there are none."""
        if not self._finders and not self.answers:
            raise BadTypeError(
                "the pipeline gives neither documents nor answers: say which component does with "
                "from_haystack(pipeline, retriever='...', generator='...')"
            )
        self._refuse_gaps()
        self._warm = False
        self._warming = threading.Lock()

    def _refuse_gaps(self) -> None:
        given = [(component, name) for component, inside in self._data.items() for name in inside]
        gaps = [".".join(place) for place in missing_inputs(self._free, [*self._questions, *given])]
        if gaps or not self._questions:
            free = ", ".join(f"{component}.{name}" for component, inside in self._free.items() for name in inside)
            problem = f"nothing is given to {', '.join(gaps)}" if gaps else "no input is known to take the question"
            raise BadTypeError(
                f"{problem}: say with from_haystack(pipeline, inputs=['component.name', ...]) where the question goes, "
                f"and with data={{...}} what is always the same; free inputs: {free}"
            )

    def find(self, query: str, top_k: int) -> Any:
        """The reply of a pipeline that only retrieves."""
        return self.ask(EvaluationSample("", query), top_k)

    async def afind(self, query: str, top_k: int) -> Any:
        """The same, awaited."""
        return await self.aask(EvaluationSample("", query), top_k)

    def ask(self, sample: EvaluationSample, top_k: int) -> Any:
        """The reply of the pipeline."""
        with self._warming:  # models are loaded once, not by every thread
            if not self._warm:
                self._pipeline.warm_up()
                self._warm = True
        return self._pipeline.run(self._filled(sample, top_k), include_outputs_from=self._watched)

    async def aask(self, sample: EvaluationSample, top_k: int) -> Any:
        """The same, awaited."""
        return await self._pipeline.run_async(self._filled(sample, top_k), include_outputs_from=self._watched)

    @property
    def _watched(self) -> set[str]:
        return {component for component, _ in (*self._finders, *self.answers)}

    def _filled(self, sample: EvaluationSample, top_k: int) -> dict[str, dict[str, Any]]:
        data = {component: dict(inside) for component, inside in self._data.items()}
        for component, _ in self._finders if not self._own else ():
            if "top_k" in self._free.get(component, ()):
                data.setdefault(component, {}).setdefault("top_k", top_k)
        for component, name in self._questions:
            kind = self._free[component][name]["type"]
            data.setdefault(component, {})[name] = _messages(sample) if takes_messages(kind) else sample.query
        return data

    def documents(self, reply: Any, top_k: int) -> list[RetrievedDocument]:
        """What a pipeline that only retrieves has found."""
        return self._mapper.to_ranking(_first(reply, self._finders) or (), top_k)

    def output(self, reply: Any) -> SystemOutputs:
        """What a pipeline that answers has found and said."""
        found = _first(reply, self._finders) or ()
        retrieved = self._mapper.to_ranking(found) if self._finders else UnknownRanking()
        said = _first(reply, self.answers)
        said = said[0] if isinstance(said, list) and said else said
        reports = [report for component, _ in self.answers for report in _reports(reply.get(component, {}), said)]
        return SystemOutputs(retrieved, _answer(said, self.answers), usage=sum_token_usage(reports))


def _places(
    named: str | Sequence[str] | None,
    outputs: Mapping[str, Mapping[str, Any]],
    found: Sequence[Socket],
    option: str,
    what: str,
) -> list[Socket]:
    if named is not None:
        return parse_sockets(named, outputs, option, found)
    if len(found) > 1:
        several = ", ".join(".".join(place) for place in found)
        raise BadTypeError(
            f"several components of the pipeline give {what} ({several}): say which is meant with "
            f"from_haystack(pipeline, {option}='{found[0][0]}')"
        )
    return list(found)


def _descendants(pipeline: Any) -> dict[str, set[str]]:
    """For every component those that come after it."""
    graph: Any = getattr(pipeline, "graph", None)
    after: dict[str, set[str]] = {}
    for start in () if graph is None else graph.nodes:
        seen: set[str] = set()
        ahead = list(graph.successors(start))
        while ahead:
            one = ahead.pop()
            if one not in seen:
                seen.add(one)
                ahead += graph.successors(one)
        after[start] = seen
    return after


def _first(reply: Mapping[str, Any], places: Sequence[Socket]) -> Any:
    for component, name in places:
        held = reply.get(component, {}).get(name)
        if held is not None:
            return held
    return None


def _answer(said: Any, places: Sequence[Socket]) -> Response:
    """The answer in a message, a text, or an answer with its documents."""
    value = getattr(said, "data", said)
    text = getattr(value, "text", value)
    answer = extract_response(text)
    if answer is None:
        looked = ", ".join(".".join(place) for place in places)
        raise SystemCallError("bad_output", f"the pipeline gave no answer at {looked}")
    return answer


def _reports(output: Mapping[str, Any], said: Any) -> list[Any]:
    """What the model says of its tokens: beside its replies, or with each of them."""
    beside = output.get("meta")
    metas = beside if isinstance(beside, list) else [getattr(said, "meta", None)]
    return [meta.get("usage") for meta in metas if isinstance(meta, Mapping)]


def _messages(sample: EvaluationSample) -> list[Any]:
    from haystack.dataclasses import ChatMessage

    makers: dict[str, Any] = {
        "user": ChatMessage.from_user,
        "assistant": ChatMessage.from_assistant,
        "system": ChatMessage.from_system,
    }
    turns = [*earlier_turns(sample), ("user", sample.query)]
    return [makers[role](text) for role, text in turns if role in makers]
