"""The commented starter plan that ``auepora init`` writes for a dataset."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric
from ..core.registry import metric
from ..core.slices import group_names
from ..core.targets import TARGETS
from ..core.types import EvaluationSample, TargetCategory
from ..engine.gold_match import CHANCE_WARNING_FROM, GoldMatch, format_level, resolve_gold_match
from ..engine.targets import TargetSupport, check_support, supported_targets, usual_specs
from ..errors import BadValueError
from ..io.join import align_outputs, load_dataset, read_outputs_file, resolve_format
from ..io.validate import count_samples
from ..runtime.files import plain_stem
from ..runtime.imports import IMPORT_PATH

MAX_GROUPS = 20
"""A label with more values than this is not used as a slice."""
MAX_SLICES = 3
_SECONDARY = {TargetCategory.GENERATION_RELEVANCE, TargetCategory.LATENCY, TargetCategory.DIVERSITY}
"""Targets whose metrics decide a comparison only where the user names the target."""

Purpose = Literal["retrieval", "answers", "no-gold", "everything"]
PURPOSES: dict[Purpose, str] = {
    "retrieval": "are the right documents found, and how high up",
    "answers": "are the answers right, supported by the documents, and refused where they must be",
    "no-gold": "what can be measured without reference answers and relevant documents",
    "everything": "every metric that the data supports",
}
"""What a plan can be for, and the question it answers."""
MAX_METRICS = 8
_BY_PURPOSE = {
    "retrieval": "recall ndcg mrr precision recall_doc span_recall map hit_rate empty_result_rate mean_latency",
    "answers": (
        "token_f1 recall exact_match label_accuracy hallucination_rate rejection_f1 over_refusal_rate "
        "failure_attribution containment rougeL_answer citation_gold_recall mean_latency"
    ),
    "no-gold": (
        "hallucination_rate support_density answer_relevance empty_result_rate response_diversity distinct_n "
        "mean_latency quantile_latency"
    ),
}
"""The metrics of a plan by its purpose, the most important first; the first that the data supports are taken."""
_GUARDRAILS = {"hallucination_rate": 0.02, "over_refusal_rate": 0.05, "empty_result_rate": 0.02}
"""Metrics that must not get worse, with the margin that is proposed."""

_OF_ANSWERS = {"response", "contexts", "context_ids", "retrieved_texts", "retrieved_ids"}
"""Columns of a table that has answers beside its questions."""
_PLAIN = re.compile(r"[A-Za-z_./][\w./@-]*")
_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null"}
_ANNOTATIONS = {
    "relevant_docs": "relevant documents",
    "candidate_docs": "judged candidates",
    "reference_answer": "a reference answer",
    "variants": "variants of another question",
    "unanswerable": "no answer to be found",
}


def starter_plan(
    dataset: str | Path,
    *,
    outputs: str | Path | None = None,
    system: str | None = None,
    folder: str | Path | None = None,
    purpose: Purpose | None = "everything",
    targets: Collection[TargetCategory] = (),
    columns: Mapping[str, str] | None = None,
) -> str:
    """A commented plan for this dataset in YAML, which ``read_plan`` accepts.

    ``purpose`` selects up to eight metrics (see ``PURPOSES``); ``None`` takes the one that the annotations allow.
    ``targets`` select all metrics of these targets instead.

    It evaluates saved ``outputs``, or a ``system``: ``python``, ``http`` or ``command`` for a placeholder of that kind,
    or an import path (``my_app.rag:build``), an address, or a command line. ``folder`` is the folder of the plan
    (default: the current folder); paths are relative to it. ``columns`` are those of a dataset that is a table.
    """
    if outputs is not None and system is not None:
        raise BadValueError("a plan has saved outputs or a system, not both")
    dataset = Path(dataset)
    chosen = resolve_format(dataset, "samples", columns=columns)
    samples = list(load_dataset(dataset, None if columns else chosen.name, columns=columns))
    has_answers = columns is None or not _OF_ANSWERS.isdisjoint(columns)
    if outputs is None and system is None and chosen.one_file and has_answers:
        outputs = dataset  # the file has samples and outputs
    place = Path(os.getcwd() if folder is None else folder)
    gold = GoldMatch("id")
    if outputs is None:
        if not any(sample.query.strip() for sample in samples):
            raise BadValueError(
                f"{dataset} has no query, so no system can be called; add the questions, or give saved outputs"
            )
        subject = system_section(system or "python")
        support = supported_targets(samples, None, targets=targets)
    else:
        outputs = Path(outputs)
        same = outputs == dataset and chosen.one_file
        form = chosen.name if same else resolve_format(outputs, "outputs").name
        read = read_outputs_file(outputs, None if same and columns else form, columns=columns if same else None)
        aligned = align_outputs(samples, read.outputs).outputs
        rules = Conventions.of(chosen.conventions)
        gold = resolve_gold_match(zip(samples, aligned, strict=True), rules)
        by_match = Conventions.of(match=gold.match)
        retrieves = not read.answers_only
        support = supported_targets(samples, aligned, retrieves=retrieves, conventions=by_match, targets=targets)
        subject = _outputs(form, _relative_path(place, outputs), columns if same else None)
    if purpose is None:
        purpose = usual_purpose(samples)
    if targets:
        check_support(support)
    else:
        support = _for_purpose(support, purpose)
    parts = [
        _HEADER,
        f"version: 1\nname: {_scalar(plain_stem(dataset.absolute()))}",
        f"# {_describe_samples(samples)}\n"
        f"dataset: {{{chosen.name}: {_scalar(_relative_path(place, dataset))}{_columns(columns)}}}",
        subject,
        _CONVENTIONS,
        _gold(gold),
        _targets(support) if targets else _metrics(support, cites=outputs is not None),
        _primary(support, gold.chance or 0.0, secondary=bool(targets)),
        _guardrails(support),
        _JUDGE if targets or purpose in ("answers", "no-gold") else "",
        _slices(samples),
        _RUN if outputs is None else "",
        _REST,
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def usual_purpose(samples: Sequence[EvaluationSample]) -> Purpose:
    """What the annotations of these samples allow: answers before retrieval."""
    counts = count_samples(samples)
    if counts["reference_answer"]:
        return "answers"
    return "retrieval" if counts["relevant_docs"] or counts["candidate_docs"] else "no-gold"


def _for_purpose(targets: Sequence[TargetSupport], purpose: Purpose) -> list[TargetSupport]:
    """The targets with the metrics of a purpose alone."""
    if purpose == "everything":
        return list(targets)
    usual: dict[str, str] = {}
    for target in targets:
        usual |= {spec.partition("@")[0].partition("[")[0]: spec for spec in usual_specs(target.metrics)}
    chosen = [usual[name] for name in _BY_PURPOSE[purpose].split() if name in usual][:MAX_METRICS]
    return [_with_metrics(target, chosen) for target in targets]


def _with_metrics(target: TargetSupport, chosen: Collection[str]) -> TargetSupport:
    return replace(target, metrics=tuple(spec for spec in target.metrics if spec in chosen))


_HEADER = """\
# What is evaluated, how, and by which metrics. Paths are relative to the folder of this file.
#   auepora validate THIS_FILE    reports every problem in it, without calling anything
#   auepora run THIS_FILE         runs it"""
_CONVENTIONS = """\
# The definitions to use where tools differ: auto (trec for TREC judgements and BEIR folders, else auepora),
# auepora, paper, golden, client, trec; or {name: trec, min_relevance: 2}.
conventions: auto"""
_RUN = """\
# How the system is called. These are the defaults.
run:
  top_k: 10          # documents asked for
  concurrency: 8     # calls at the same time
  timeout: 60        # seconds per call; null waits for ever
  retries: 2         # after temporary failures
  repeats: 1         # calls per sample
  # max_failures: 50 # stop once more samples than this have failed"""
_REST = """\
# The store of the runs: a file, or a URL such as postgresql://me:${PGPASSWORD}@host/runs.
store: runs.sqlite

# scoring: {executor: processes, workers: 4}   # for large data; the values are the same
# gates: [coverage >= 0.95]   # `auepora run` exits with 1 if a run does not satisfy them"""
_JUDGE = """\
# A judge reads answers as a person would. Fill this in, and add to the metrics:
#   - {llm_faithfulness: {critic: {use: judge}}}
# resources:
#   judge: {openai: {model: MODEL, base_url: "http://127.0.0.1:8000/v1", api_key_env: MY_API_KEY}}
# judge: {max_calls: 500, controls: 10}"""
_CONFIG = """\
  # Description of the system, stored with the run and shown in comparisons; any keys and values.
  # config: {chunker_version: v1, embedding: my-model, model: my-llm, prompt_version: 3}"""


def system_section(system: str) -> str:
    """The ``system`` section; a placeholder is marked with EDIT ME."""
    note = "   # EDIT ME" if system in ("python", "http", "command") else ""
    if system == "http" or "://" in system:
        url = "http://127.0.0.1:8000/ask" if system == "http" else system
        return f"""\
# The endpoint to evaluate: it receives the question and replies with documents and an answer.
system:
  http:
    url: {_scalar(url)}{note}
    # headers: {{Authorization: "Bearer ${{API_KEY}}"}}   # from the environment; never write a key here
    # request: {{question: "{{query}}", k: "{{top_k}}"}}   # what is sent; by default query, top_k, sample_id
    # response: {{answer: data.text, retrieved: data.hits, doc_id: id}}   # where things are in the reply
{_CONFIG}"""
    if system == "command" or (not IMPORT_PATH.fullmatch(system) and re.search(r"[\s/]", system)):
        words = "[python, my_app.py]" if system == "command" else _scalar(system)
        return f"""\
# The command to evaluate: it reads a question per line of JSON, and writes an answer per line of JSON.
system:
  command: {words}{note}
{_CONFIG}"""
    if system != "python" and not IMPORT_PATH.fullmatch(system):
        raise BadValueError(
            f"cannot tell what system {system!r} is; give python, http or command, an import path such as "
            "my_app.rag:build, an address or a command line"
        )
    path = "my_app.rag:build" if system == "python" else system
    return f"""\
# The system to evaluate: module:name of an object, a class or a function that builds one. The module is looked for
# in this file's folder too. Importing it runs its code.
system:
  python: {_scalar(path)}{note}
  args: {{}}            # arguments of the class or function
{_CONFIG}"""


def _outputs(form: str, path: str, columns: Mapping[str, str] | None) -> str:
    named = "" if columns is None else f"\n  columns: {_mapping(columns)}"
    return f"""\
# Saved outputs; no system is called.
outputs:
  {form}: {_scalar(path)}{named}
{_CONFIG}"""


def _columns(columns: Mapping[str, str] | None) -> str:
    return "" if columns is None else f", columns: {_mapping(columns)}"


def _mapping(columns: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{field}: {_scalar(name)}' for field, name in columns.items())}}}"


def _gold(gold: GoldMatch) -> str:
    if gold.match == "id":
        return ""
    return f"# {gold.sentence().capitalize()}.\ngold: {{match: auto}}   # or id, span, text, parent"


def _describe_samples(samples: Sequence[EvaluationSample]) -> str:
    counts = count_samples(samples)
    annotations = [f"{counts[key]} with {what}" for key, what in _ANNOTATIONS.items() if counts[key]]
    n = len(samples)
    return f"{n} sample{'s' * (n != 1)}{': ' if annotations else ', without any annotation'}{', '.join(annotations)}"


def _metrics(targets: Sequence[TargetSupport], *, cites: bool) -> str:
    lines = []
    for target in targets:
        specs = usual_specs(target.metrics)
        if specs:
            lines += [f"  # {target.title}", *(_metric_line(spec, cites=cites) for spec in specs)]
    if not any(line.startswith("  - ") for line in lines):
        return "# No metric can be computed on these samples yet; `auepora validate` says why.\n# metrics: [recall@5]"
    head = (
        "# The metrics. Leave the key out for all that the data supports; write {name: {option: value}} for "
        "options.\n# `auepora metrics` lists them all, `auepora metrics ndcg` explains one."
    )
    return "\n".join([head, "metrics:", *lines])


def _targets(support: Sequence[TargetSupport]) -> str:
    """The targets, with their metrics as a comment."""
    head = "# What is judged: all metrics that the data supports for these targets; `auepora targets` lists them."
    lines = []
    for found in support:
        name = TARGETS[found.target].name
        lines += [f"#   {name}: {', '.join(found.patterns)}"] if found.metrics else [f"#   {found.problem}"]
    names = [TARGETS[found.target].name for found in support]
    return "\n".join([head, *lines, f"targets: [{', '.join(names)}]"])


def _primary(targets: Sequence[TargetSupport], chance: float, *, secondary: bool) -> str:
    """One primary metric per target; they share the error rate of 5 %, so fewer of them give more power.

    Metrics by document are left out where their chance level is high.
    """
    found, is_distinct = [], chance < CHANCE_WARNING_FROM
    for target in targets:
        if secondary or target.target not in _SECONDARY:
            distinct = tuple(spec for spec in target.metrics if is_distinct or not _is_by_document(spec))
            found += replace(target, metrics=distinct).primary
    advice = (
        f"# No metric by document is primary: the chance level is {format_level(chance)}. Add spans or texts to gold.\n"
    )
    note = "" if is_distinct else advice
    if not found:
        return note.rstrip()
    head = "# The metrics that decide a comparison of runs, one per target; the others get no verdict."
    return f"{head}\n{note}primary: [{', '.join(map(_scalar, found))}]"


def _guardrails(targets: Sequence[TargetSupport]) -> str:
    """Margins for the metrics that must not get worse."""
    listed: set[str] = set()
    for target in targets:
        listed.update(usual_specs(target.metrics))
    found = [f"{name}: {margin:g}" for name, margin in _GUARDRAILS.items() if name in listed]
    if not found:
        return ""
    head = "# What must not get worse by more than this, whatever the primary metrics do."
    return f"{head}\nguardrails: {{{', '.join(found)}}}"


def _is_by_document(spec: str) -> bool:
    """Whether a metric compares documents where gold is matched by document."""
    built = metric(spec)
    return isinstance(built, BatchMetric) and (built.metadata.matches_gold or built.metadata.by_parent_id)


def _metric_line(spec: str, *, cites: bool) -> str:
    built = metric(spec)
    if not cites and isinstance(built, BatchMetric) and "citations" in built.metadata.reads:
        return f"  # - {_scalar(spec)}   # for a system that cites"
    return f"  - {_scalar(spec)}"


def _slices(samples: Sequence[EvaluationSample]) -> str:
    values: dict[str, list[str]] = {}
    for sample in samples:
        for key, value in sample.labels.items():
            if isinstance(key, str) and key.strip() and key != "variant_of" and not isinstance(value, dict):
                values.setdefault(key, []).extend(group_names(value))
    found = [key for key, texts in values.items() if _makes_groups(texts)][:MAX_SLICES]
    head = "# Groups by which every metric is broken down: labels.<key> or metadata.<key>."
    if not found:
        return f"{head}\n# slices: [labels.lang]"
    return "\n".join([head, "slices:", *(f"  - {_scalar(f'labels.{key}')}" for key in found)])


def _makes_groups(values: Sequence[str]) -> bool:
    """Whether the values of a label form groups: several values, and not one per sample."""
    distinct = set(values)
    return 2 <= len(distinct) <= MAX_GROUPS and len(distinct) < len(values)


def _relative_path(folder: Path, path: Path) -> str:
    """The path relative to ``folder``, or absolute if it is far away."""
    absolute, base = os.path.abspath(path), os.path.abspath(folder)
    near = os.path.relpath(absolute, base) if os.path.splitdrive(absolute)[0] == os.path.splitdrive(base)[0] else ""
    # At most two steps up; otherwise the absolute path is clearer.
    return Path(near).as_posix() if near and not near.startswith(os.path.join("..", "..", "..")) else absolute


def _scalar(text: str) -> str:
    """A string as a YAML scalar, quoted if needed."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not re.fullmatch(r"[.\d_eE+-]*", text)
    return text if plain else json.dumps(text, ensure_ascii=False)
