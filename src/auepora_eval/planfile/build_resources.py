"""Resources of a plan, built: what ``{use: NAME}`` stands for when metrics are scored."""

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
    """The named resources, built and checked as far as it goes without asking anybody; all others by name alone.

    ``timeout`` is how many seconds a request may take. ``need_key`` is false where nobody will be asked: then a key
    that is not set is no mistake.
    """
    built: dict[str, Any] = dict.fromkeys(sources)
    for name in dict.fromkeys(names):
        source = sources.get(name)
        if source is None:
            continue  # whoever resolves the metrics says so
        key = f"resources.{name}.{source.kind}"
        try:
            built[name] = made = build_resource(source, folder, timeout=timeout)
        except AueporaError as error:
            findings.add_error(key, error)
            continue
        try:
            if need_key and hasattr(made, "require_key"):
                made.require_key()
        except JudgeError as error:
            findings.add(f"{key}.api_key_env", error.message, error)
    return built


def build_resource(source: ResourceSource, folder: Path, *, timeout: float) -> Any:
    """One resource; modules are looked for in ``folder`` too."""
    return _BUILDERS[source.kind](source.options, folder, timeout)


def _openai(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.openai_compat import OpenAICritic

    given = dict(options)
    return OpenAICritic(given.pop("model"), timeout=timeout, **given)


def _python(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..systems.python import load_or_build

    path, args = options["path"], options["args"]

    def is_meant(found: Any) -> bool:
        return _is_usable(found) and (not callable(found) or (not args and _needs_arguments(found)))

    made, _ = load_or_build(path, args, folder=folder, as_is=is_meant)
    if inspect.iscoroutine(made):
        made.close()
        raise BadValueError(f"{path} is an async function that makes a resource; make it in a plain function")
    if not _is_usable(made):
        what = "None" if made is None else f"an object of type {type(made).__name__}"
        raise BadValueError(
            f"{path} gave {what}, which is no judge and makes no vectors: derive from LLMCritic (a prompt in, a number "
            "out) or StructuredCritic, or give a function from texts to vectors"
        )
    return made


def _is_usable(found: Any) -> bool:
    """Whether metrics can do something with it; which metric needs what, they say themselves."""
    return (
        isinstance(found, (LLMCritic, StructuredCritic))
        or callable(found)
        or any(callable(getattr(found, name, None)) for name in ("encode", "embed_batch"))
    )


def _needs_arguments(found: Callable[..., Any]) -> bool:
    """Whether it cannot be called as it is, and so makes nothing: a function from texts to vectors."""
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


def _recorded(options: Mapping[str, Any], folder: Path, timeout: float) -> Any:
    from ..judge.recorded import RecordedCritic

    return RecordedCritic(options["path"])


_BUILDERS: dict[str, Build] = {
    "openai": _openai,
    "python": _python,
    "nli": _nli,
    "recorded": _recorded,
    **{kind: _embedder(kind) for kind in EMBEDDERS},
}
