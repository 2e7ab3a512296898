"""A benchmark as a plan: its samples in our own format, its metrics, and the saved outputs or the system to call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.types import RetrievedDocument
from ..errors import BadTypeError
from ..io.codec import encode_output, encode_sample
from ..io.yaml_values import dump_yaml
from ..plan.starter import system_section
from ..runs.replay import ReplayContext, make_replay_system
from ..runs.run import RunRequest
from ..runtime.files import write_lines
from .entries import get_benchmark
from .pages import licence_text
from .reading import Loaded, load_part
from .recognition import find_data, require_shape
from .scoring import judges_of, metric_specs, used_slices

_JUDGE = '{openai: {model: MODEL, base_url: "http://127.0.0.1:8000/v1", api_key_env: MY_API_KEY}}'
SETTINGS, LICENCE, DOCUMENTS = "benchmark settings", "benchmark licence", "benchmark documents"
"""What the configuration of a run says about its benchmark."""
_TAKES_DOCUMENTS = "documents are given to generate(query, documents), or to a run() that takes documents"
_RESOURCES = {"nli": "{nli: PATH_OF_A_MODEL}"}
"""By the name of a resource how a plan gives it; all others are judges."""


def write_plan(loaded: Loaded, path: Path, *, system: str | None = None) -> None:
    """Write a plan, and beside it the samples and, without a system, the outputs."""
    part = loaded.part
    samples = path.with_name(f"{path.stem}.samples.jsonl")
    write_lines(samples, (encode_sample(sample) for sample in loaded.samples))
    name = f"{loaded.benchmark.name}-{loaded.split}".removesuffix("-")
    values: dict[str, Any] = {"version": 1, "name": name, "dataset": {"jsonl": samples.name}}
    if system is None and len(loaded.missing) < len(loaded.samples):
        outputs = path.with_name(f"{path.stem}.outputs.jsonl")
        pairs = zip(loaded.samples, loaded.outputs, strict=True)
        lines = [encode_output(sample.sample_id, output) for sample, output in pairs if output is not None]
        write_lines(outputs, lines)
        values["outputs"] = {"jsonl": outputs.name, "config": {LICENCE: licence_text(loaded.benchmark)}}
    values["conventions"] = {"name": "auepora", **part.conventions}
    values["metrics"] = list(metric_specs(part).values())
    slices = used_slices(loaded)
    if slices:
        values["slices"] = slices
    heading = loaded.benchmark.heading
    sections = [f"# {heading.title}: {heading.cite}\n# Licences: {licence_text(loaded.benchmark)}", dump_yaml(values)]
    if "outputs" not in values:
        sections.append(system_section(system or "python").rstrip())
    judges = judges_of(part)
    if judges:
        lines_of_judges = [f"#   {name}: {_RESOURCES.get(name, _JUDGE)}" for name in judges]
        sections.append("\n".join(["# Needed by the metrics above; fill this in.", "# resources:", *lines_of_judges]))
    write_lines(path, ["\n".join(sections).encode()])


def with_benchmark_documents(request: RunRequest, loaded: Loaded) -> RunRequest:
    """The request with a system that answers from the documents of the benchmark, where it takes documents.

    Its configuration says whether it does, and has the settings and the licence.
    """
    contexts: dict[str, ReplayContext] = {}
    for sample in request.samples:
        ranked = enumerate(sample.candidate_docs or (), start=1)
        contexts[sample.sample_id] = ReplayContext([RetrievedDocument(given, None, rank) for rank, given in ranked])
    about = {SETTINGS: loaded.settings, LICENCE: licence_text(loaded.benchmark), DOCUMENTS: ""}
    if any(context.retrieved for context in contexts.values()):
        try:
            system = make_replay_system(request.system, contexts, requirements=_TAKES_DOCUMENTS)
            request = replace(request, system=system, gives_documents=True)
            about[DOCUMENTS] = "the system answered from the documents of the benchmark"
        except BadTypeError as error:
            about[DOCUMENTS] = f"the system retrieved for itself: {error}"
    return replace(request, config={**request.config, **about})


def open_benchmark(
    name: str,
    split: str | None = None,
    data: str | None = None,
    outputs: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> Loaded:
    """The samples and outputs of a benchmark, from files that are looked for and whose shape is checked."""
    benchmark = get_benchmark(name)
    path, found = find_data(benchmark, split, data)
    require_shape(benchmark, found, path)
    return load_part(benchmark, found, path, outputs, given=settings or {}, limit=limit)
