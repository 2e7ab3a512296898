"""Resources of a plan, built: what ``{use: NAME}`` stands for when metrics are scored."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..core.errors import AueporaError, BadValueError, MissingDependencyError
from ..judge.critic import LLMCritic, StructuredCritic
from .findings import Findings
from .plan import ResourceSource

__all__ = ["build_resource", "build_resources"]

Build = Callable[[Mapping[str, Any], Path], Any]

_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 -- compared with, not bound to


def build_resources(
    findings: Findings,
    sources: Mapping[str, ResourceSource],
    names: Collection[str],
    folder: Path,
    *,
    need_key: bool = True,
) -> dict[str, Any]:
    """The named resources, built and checked as far as it goes without asking anybody; all others by name alone.

    ``need_key`` is false where nobody will be asked: then a key that is not set is no mistake.
    """
    built: dict[str, Any] = dict.fromkeys(sources)
    for name in dict.fromkeys(names):
        source = sources.get(name)
        if source is None:
            continue  # whoever resolves the metrics says so
        key = f"resources.{name}.{source.kind}"
        try:
            if need_key and source.kind == "openai":
                _require_key(source.options)
            built[name] = build_resource(source, folder)
        except AueporaError as error:
            findings.add_error(f"{key}.api_key_env" if isinstance(error, _NoKeyError) else key, error)
    return built


def build_resource(source: ResourceSource, folder: Path) -> Any:
    """One resource; modules are looked for in ``folder`` too."""
    return _BUILDERS[source.kind](source.options, folder)


class _NoKeyError(BadValueError):
    pass


def _require_key(options: Mapping[str, Any]) -> None:
    """Whether a key is needed and there is none. A server on this machine seldom asks for one."""
    url, variable = options.get("base_url"), options["api_key_env"]
    if os.environ.get(variable) or (url is not None and urlsplit(url).hostname in _HERE):
        return
    raise _NoKeyError(f"the environment variable {variable} is not set; it holds the key of the judge")


def _openai(options: Mapping[str, Any], folder: Path) -> Any:
    if not _is_installed("openai"):
        raise MissingDependencyError("openai", purpose="a judge behind an endpoint", install="'auepora-eval[openai]'")
    from ..judge.openai_compat import OpenAICritic

    given = {key: value for key, value in options.items() if value not in (None, {})}
    return OpenAICritic(given.pop("model"), **given)


def _python(options: Mapping[str, Any], folder: Path) -> Any:
    from ..systems.python import load_object

    path = options["path"]
    made, _ = load_object(path, options["args"], folder=folder, as_is=_is_critic)
    if inspect.iscoroutine(made):
        made.close()
        raise BadValueError(f"{path} is an async function that makes a judge; make it in a plain function")
    if not _is_critic(made):
        what = "None" if made is None else f"an object of type {type(made).__name__}"
        raise BadValueError(
            f"{path} gave {what}, which is no judge: derive from LLMCritic (a prompt in, a number out) or from "
            "StructuredCritic"
        )
    return made


def _is_critic(found: Any) -> bool:
    return isinstance(found, (LLMCritic, StructuredCritic))


def _recorded(options: Mapping[str, Any], folder: Path) -> Any:
    from ..judge.recorded import RecordedCritic

    return RecordedCritic(options["path"])


_BUILDERS: dict[str, Build] = {"openai": _openai, "python": _python, "recorded": _recorded}


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None
