"""Haystack pipelines and single components as systems."""

from __future__ import annotations

import threading
import types
import typing
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from ..core.grouping import group_pairs
from ..core.types import EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking
from ..errors import BadTypeError, SystemCallError
from .adapters import (
    HAYSTACK,
    DocumentMapper,
    FrameworkDocument,
    adapt_pipeline,
    adapt_retriever,
    detect_framework,
    earlier_turns,
    extract_response,
    is_instance_of,
    provenance,
    span_from,
    sum_token_usage,
)

# --- sockets of a pipeline: where the question goes in, and where documents and answers come out ---------------------

Socket = tuple[str, str]
"""A component name and a socket name."""

_QUESTION_SOCKETS = ("query", "question", "text", "input", "user_query", "user_input", "prompt")
_ANSWER_SOCKETS = ("answers", "replies", "last_message", "answer", "reply", "response")


def question_sockets(free: Mapping[str, Mapping[str, Any]], data: Mapping[str, Mapping[str, Any]]) -> list[Socket]:
    """The free inputs that take the question, by name; else the only mandatory one."""
    given = _places(data)
    sockets = {place: free[place[0]][place[1]] for place in _places(free) if place not in given}
    texts = [place for place, info in sockets.items() if _takes_text(info["type"])]
    messages = [place for place, info in sockets.items() if takes_messages(info["type"])]
    mandatory = [place for place in sockets if sockets[place]["is_mandatory"] and place in (*texts, *messages)]
    usual = [place for place in mandatory if place in messages or place[1] in _QUESTION_SOCKETS]
    usual += [place for place in texts if place not in usual and place[1] in ("query", "question")]
    by_name = [place for place in sockets if place in usual]
    return by_name or (mandatory if len(mandatory) == 1 else [])


def _places(sockets: Mapping[str, Mapping[str, Any]]) -> list[Socket]:
    """Every socket of some components."""
    return list(chain.from_iterable(zip(repeat(component), inside) for component, inside in sockets.items()))


def document_sockets(outputs: Mapping[str, Mapping[str, Any]], after: Mapping[str, set[str]]) -> list[Socket]:
    """Document outputs of the last components that have any."""
    places = [place for place in _places(outputs) if _is_list_of(outputs[place[0]][place[1]]["type"], "Document")]
    return _last_components(places, after, ("documents",))


def answer_sockets(outputs: Mapping[str, Mapping[str, Any]], after: Mapping[str, set[str]]) -> list[Socket]:
    """Answer outputs of the last components that have any."""
    places = [place for place in _places(outputs) if place[1] in _ANSWER_SOCKETS]
    return _last_components(places, after, _ANSWER_SOCKETS)


def _last_components(places: Sequence[Socket], after: Mapping[str, set[str]], preferred: Sequence[str]) -> list[Socket]:
    by_component = group_pairs(places)
    chosen: list[Socket] = []
    for component, names in by_component.items():
        if not after.get(component, set()) & by_component.keys() - {component}:
            usual = [name for name in preferred if name in names]
            chosen += [(component, name) for name in usual[:1] or names]
    return chosen


def parse_sockets(
    named: str | Sequence[str], known: Mapping[str, Mapping[str, Any]], what: str, defaults: Sequence[Socket] = ()
) -> list[Socket]:
    """The sockets a user named, as ``component.socket``, or as ``component`` if the socket is unambiguous."""
    parsed: list[Socket] = []
    for place in [named] if isinstance(named, str) else named:
        component, dot, socket = place.rpartition(".")
        if not dot or component not in known:
            component, socket = place, ""
        sockets = list(known.get(component, ()))
        if not socket:
            usual_sockets = [name for owner, name in defaults if owner == component]
            socket = (usual_sockets or (sockets if len(sockets) == 1 else [""]))[0]
        if socket not in sockets:
            available = ", ".join(f"{owner}.{name}" for owner, name in _places(known))
            raise BadTypeError(f"{what}='{place}' is not in the pipeline; it has: {available}")
        parsed.append((component, socket))
    return parsed


def _takes_text(kind: Any) -> bool:
    """Whether a socket of this type takes a string."""
    return kind in (str, Any) or any(_takes_text(member) for member in _union_members(kind))


def takes_messages(kind: Any) -> bool:
    """Whether a socket of this type takes chat messages."""
    return _is_list_of(kind, "ChatMessage") or any(takes_messages(member) for member in _union_members(kind))


def _union_members(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()


def _is_list_of(kind: Any, name: str) -> bool:
    if typing.get_origin(kind) is not list:
        return any(_is_list_of(member, name) for member in _union_members(kind))
    (item_type,) = typing.get_args(kind) or (None,)
    return getattr(item_type, "__name__", "") == name and getattr(item_type, "__module__", "").startswith("haystack.")


# --- pipelines and single components as systems ----------------------------------------------------------------------

_COMPONENT = "component"


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

    ``inputs`` names the sockets of the question (``["retriever.query", "prompt_builder.question"]``), ``retriever`` the
    component whose documents count as retrieved, ``generator`` the one whose answer counts; each is detected if it is
    unambiguous, and may be several, of which the first that ran counts. ``data`` is passed to the pipeline with every
    question. Without a generator the system returns documents only.

    ``id_key`` and ``parent_key`` name the meta keys of a document's id and of its parent's id. The ``top_k`` of the run
    is passed to the retriever if it has an input ``top_k``, unless ``own_top_k`` is set. ``use_async`` calls
    ``run_async`` instead of ``run`` in threads.
    """
    config = provenance(HAYSTACK, pipeline, any_version=any_version)
    mapper = DocumentMapper(_read_document, id_key=id_key, parent_key=parent_key)
    if is_instance_of(pipeline, HAYSTACK, "PipelineBase"):
        runner: Any = pipeline
    elif detect_framework(pipeline) is HAYSTACK and callable(getattr(pipeline, "run", None)):
        runner = _SingleComponent(pipeline)
    else:
        raise BadTypeError(f"from_haystack() takes a pipeline or a component, not a {type(pipeline).__name__}")
    if use_async and not callable(getattr(runner, "run_async", None)):
        raise BadTypeError(f"a {type(pipeline).__name__} has no run_async(): leave use_async out, or use AsyncPipeline")
    named = {"inputs": inputs, "retriever": retriever, "generator": generator}
    wired = _HaystackPipeline(runner, named, data or {}, mapper, own_top_k)
    ask = wired.ask_async if use_async else wired.ask
    if wired.answers:
        return adapt_pipeline(ask, wired.output, config, pipeline, use_async=use_async)

    def find(query: str, top_k: int) -> Any:
        return ask(EvaluationSample("", query), top_k)

    return adapt_retriever(find, wired.documents, config, pipeline, use_async=use_async)


def _read_document(document: Any) -> FrameworkDocument:
    meta = document.meta or {}
    parent = next((meta[key] for key in ("source_id", "parent_id") if meta.get(key) is not None), None)
    span = None if parent is None else span_from(meta.get("split_idx_start"), document.content)
    return FrameworkDocument(document.id, document.content, meta, document.score, parent_id=parent, span=span)


class _SingleComponent:
    """A single component with the interface of a pipeline."""

    def __init__(self, component: Any) -> None:
        self._component = component

    def inputs(self) -> dict[str, dict[str, Any]]:
        # There is no public API for these; the framework reads them in the same way.
        sockets = self._component.__haystack_input__._sockets_dict
        return {
            _COMPONENT: {
                name: {"type": socket.type, "is_mandatory": socket.is_mandatory} for name, socket in sockets.items()
            }
        }

    def outputs(self, **_: bool) -> dict[str, dict[str, Any]]:
        sockets = self._component.__haystack_output__._sockets_dict
        return {_COMPONENT: {name: {"type": socket.type} for name, socket in sockets.items()}}

    def warm_up(self) -> None:
        warm_up = getattr(self._component, "warm_up", None)
        if callable(warm_up):
            warm_up()

    def run(self, data: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        return {_COMPONENT: self._component.run(**data[_COMPONENT])}

    @property
    def run_async(self) -> Any:
        own = getattr(self._component, "run_async", None)
        if own is None:
            return None

        async def run_async(data: Mapping[str, Any], **_: Any) -> dict[str, Any]:
            return {_COMPONENT: await own(**data[_COMPONENT])}

        return run_async


class _HaystackPipeline:
    """A pipeline with the sockets of the question, the documents and the answers."""

    def __init__(
        self,
        pipeline: Any,
        named: Mapping[str, str | Sequence[str] | None],
        data: Mapping[str, Mapping[str, Any]],
        mapper: DocumentMapper,
        own_top_k: bool,
    ) -> None:
        """``named`` has the sockets that the user named, by the option of ``from_haystack``."""
        import networkx  # a pipeline's graph is one of this package, which Haystack requires

        self._pipeline, self._data, self._mapper, self._own = pipeline, data, mapper, own_top_k
        self._free = pipeline.inputs()
        outputs = pipeline.outputs(include_components_with_connected_outputs=True)
        graph: Any = getattr(pipeline, "graph", None)
        after = {} if graph is None else {name: networkx.descendants(graph, name) for name in graph.nodes}
        inputs = named["inputs"]
        self._questions = (
            question_sockets(self._free, data) if inputs is None else parse_sockets(inputs, self._free, "inputs")
        )
        documents, answers = document_sockets(outputs, after), answer_sockets(outputs, after)
        self._document_sockets = _select_sockets(named, outputs, documents, "retriever", "documents")
        self.answers = _select_sockets(named, outputs, answers, "generator", "answers")
        """Sockets of the answers; empty if there are none."""
        if not self._document_sockets and not self.answers:
            raise BadTypeError(
                "the pipeline has no output of documents or answers: name the component with "
                "from_haystack(pipeline, retriever='...', generator='...')"
            )
        self._check_inputs()
        self._warm = False
        self._warming = threading.Lock()

    def _check_inputs(self) -> None:
        given = {*self._questions, *_places(self._data)}
        places = [place for place in _places(self._free) if place not in given]
        missing = [".".join(place) for place in places if self._free[place[0]][place[1]]["is_mandatory"]]
        if missing or not self._questions:
            free = ", ".join(f"{component}.{name}" for component, name in _places(self._free))
            problem = (
                f"nothing is given to {', '.join(missing)}" if missing else "no input is known to take the question"
            )
            raise BadTypeError(
                f"{problem}: set from_haystack(pipeline, inputs=['component.name', ...]) for the question "
                f"and data={{...}} for constant inputs; free inputs: {free}"
            )

    def ask(self, sample: EvaluationSample, top_k: int) -> Any:
        """The reply of the pipeline."""
        with self._warming:  # models are loaded once, not in every thread
            if not self._warm:
                self._pipeline.warm_up()
                self._warm = True
        return self._pipeline.run(self._build_data(sample, top_k), include_outputs_from=self._output_components)

    def ask_async(self, sample: EvaluationSample, top_k: int) -> Any:
        """Its reply, to be awaited."""
        return self._pipeline.run_async(self._build_data(sample, top_k), include_outputs_from=self._output_components)

    @property
    def _output_components(self) -> set[str]:
        return {component for component, _ in (*self._document_sockets, *self.answers)}

    def _build_data(self, sample: EvaluationSample, top_k: int) -> dict[str, dict[str, Any]]:
        data = {component: dict(inside) for component, inside in self._data.items()}
        for component, _ in self._document_sockets if not self._own else ():
            if "top_k" in self._free.get(component, ()):
                data.setdefault(component, {}).setdefault("top_k", top_k)
        for component, name in self._questions:
            kind = self._free[component][name]["type"]
            data.setdefault(component, {})[name] = _messages(sample) if takes_messages(kind) else sample.query
        return data

    def documents(self, reply: Any, top_k: int) -> list[RetrievedDocument]:
        """The documents of a pipeline that only retrieves."""
        return self._mapper.to_ranking(_first_value(reply, self._document_sockets) or (), top_k)

    def output(self, reply: Any) -> SystemOutputs:
        """The documents and the answer of a pipeline."""
        found = _first_value(reply, self._document_sockets) or ()
        retrieved = self._mapper.to_ranking(found) if self._document_sockets else UnknownRanking()
        answer = _first_value(reply, self.answers)
        answer = answer[0] if isinstance(answer, list) and answer else answer
        reports = chain.from_iterable(_reports(reply.get(component, {}), answer) for component, _ in self.answers)
        return SystemOutputs(retrieved, _answer(answer, self.answers), usage=sum_token_usage(reports))


def _select_sockets(
    named: Mapping[str, str | Sequence[str] | None],
    outputs: Mapping[str, Mapping[str, Any]],
    candidates: Sequence[Socket],
    option: str,
    what: str,
) -> list[Socket]:
    chosen = named[option]
    if chosen is not None:
        return parse_sockets(chosen, outputs, option, candidates)
    if len(candidates) > 1:
        several = ", ".join(".".join(place) for place in candidates)
        raise BadTypeError(
            f"several components of the pipeline give {what} ({several}): select one with "
            f"from_haystack(pipeline, {option}='{candidates[0][0]}')"
        )
    return list(candidates)


def _first_value(reply: Mapping[str, Any], places: Sequence[Socket]) -> Any:
    values = [reply.get(component, {}).get(name) for component, name in places]
    return next((value for value in values if value is not None), None)


def _answer(reply_value: Any, places: Sequence[Socket]) -> Response:
    """The answer in a message, a string, or an answer object."""
    value = getattr(reply_value, "data", reply_value)
    answer = extract_response(getattr(value, "text", value))
    if answer is None:
        searched = ", ".join(".".join(place) for place in places)
        raise SystemCallError("bad_output", f"the pipeline gave no answer at {searched}")
    return answer


def _reports(output: Mapping[str, Any], answer: Any) -> list[Any]:
    """Token usage reports: next to the replies, or in each of them."""
    metas_of_output = output.get("meta")
    metas = metas_of_output if isinstance(metas_of_output, list) else [getattr(answer, "meta", None)]
    usages = [(meta.get("usage"), meta.get("model")) for meta in metas if isinstance(meta, Mapping)]
    return [{**usage, "model": model} for usage, model in usages if isinstance(usage, Mapping)]


def _messages(sample: EvaluationSample) -> list[Any]:
    from haystack.dataclasses import ChatMessage

    makers: dict[str, Any] = {
        "user": ChatMessage.from_user,
        "assistant": ChatMessage.from_assistant,
        "system": ChatMessage.from_system,
    }
    turns = [*earlier_turns(sample), ("user", sample.query)]
    return [makers[role](text) for role, text in turns if role in makers]
