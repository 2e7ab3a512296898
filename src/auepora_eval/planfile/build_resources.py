"""Build the resources of a plan, to which metrics refer by ``{use: NAME}``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import AueporaError, BadValueError, JudgeError
from ..judge.critic import LLMCritic, StructuredCritic
from .findings import Findings
from .plan import ResourceSource
from .resources_section import EMBEDDERS

__all__ = ["build_resource", "build_resources"]

Build = Callable[[Mapping[str, Any], Path, float], Any]


def build_resources(
    findings: Findings,
    sources: Mapping[str, ResourceSource],
    names: Collection[str],
    folder: Path,
    *,
    timeout: float,
    need_key: bool = True,
) -> dict[str, Any]:
    """Build and check the named resources, without calling a server; the others are ``None``.

    ``timeout`` is that of a request, in seconds. With ``need_key`` false, a missing API key is no error.
    """
    built: dict[str, Any] = dict.fromkeys(sources)
    for name in dict.fromkeys(names):
        source = sources.get(name)
        if source is None:
            continue  # reported when the metrics are resolved
        key = f"resources.{name}.{source.kind}"
        try:
            built[name] = resource = build_resource(source, folder, timeout=timeout)
        except AueporaError as error:
            findings.add_error(key, error)
            continue
        try:
            if need_key and hasattr(resource, "require_key"):
                resource.require_key()
        except JudgeError as error:
            findings.add(f"{key}.api_key_env", error.message, error)
    return built


def build_resource(source: ResourceSource, folder: Path, *, timeout: float) -> Any:
    """Build one resource; modules are also imported from ``folder``."""
    return _BUILDERS[source.kind](source.options, folder, timeout)


def _build_openai(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.openai_compat import OpenAICritic

    arguments = dict(options)
    return OpenAICritic(arguments.pop("model"), timeout=timeout, **arguments)


def _build_python(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..systems.python import load_or_build

    path, args = options["path"], options["args"]

    def is_resource(found: Any) -> bool:
        return _is_usable(found) and (not callable(found) or (not args and _needs_arguments(found)))

    made, _ = load_or_build(path, args, folder=folder, as_is=is_resource)
    if inspect.iscoroutine(made):
        made.close()
        raise BadValueError(f"{path} is an async function; build the resource in a plain function")
    if not _is_usable(made):
        what = "None" if made is None else f"an object of type {type(made).__name__}"
        raise BadValueError(
            f"{path} gave {what}, which is neither a judge nor an embedder: derive from LLMCritic (from a prompt to a "
            "number) or StructuredCritic, or give a function from texts to vectors"
        )
    return made


def _is_usable(found: Any) -> bool:
    """Whether an object can be a resource: a judge, a function or an embedder."""
    return (
        isinstance(found, (LLMCritic, StructuredCritic))
        or callable(found)
        or any(callable(getattr(found, name, None)) for name in ("encode", "embed_batch"))
    )


def _needs_arguments(found: Callable[..., Any]) -> bool:
    """Whether it needs arguments, and so is an embedding function and not a factory."""
    try:
        inspect.signature(found).bind()
    except TypeError:
        return True
    except ValueError:
        return False
    return False


def _embedder(kind: str) -> Build:
    def build(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
        from ..semantic.embedders import build_embedder

        return build_embedder(kind, options)

    return build


def _nli(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.entailment import NliModel

    return NliModel.of(options)


def _build_recorded(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.recorded import RecordedCritic

    return RecordedCritic(options["path"])


_BUILDERS: dict[str, Build] = {
    "openai": _build_openai,
    "python": _build_python,
    "nli": _nli,
    "recorded": _build_recorded,
    **{kind: _embedder(kind) for kind in EMBEDDERS},
}
