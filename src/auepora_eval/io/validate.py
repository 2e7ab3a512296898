"""Validation of a dataset and its outputs: problems, warnings, counts of fields, supported targets."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..core.conventions import Conventions
from ..core.targets import TARGETS
from ..core.types import STARTED, Document, EvaluationSample, SystemOutputs, TargetCategory
from ..engine.targets import TargetSupport, supported_targets
from ..errors import AueporaError, DataFileError, did_you_mean
from ..features.rankings import RANK_CONTRADICTION, parse_level
from ..features.texts import is_unanswerable
from ..judge.nugget_lists import sample_nuggets
from ..judge.rubrics import RUBRIC_KEY, sample_rubric
from ..runtime.processes import gc_paused
from .corpus import Corpus, CorpusJoin
from .formats import Format, Role
from .join import Columns, require_common_id, resolve_format
from .labels import NuggetsById, iter_nuggets
from .problems import (
    MISSING_RETRIEVED,
    PUT_IN_QUOTES,
    DataWarnings,
    ParsedOutput,
    ParsedSample,
    Problem,
    Problems,
    outputs_missing_ranking,
    quote_text,
)
from .records import require_same_questions

# --- checks beyond the format: levels, variants, ranks ---------------------------------------------------------------

KNOWN_LABELS = ("answerable", "noise_ratio", "rubric", "scenario", "variant_of")
KNOWN_METADATA = ("expected_doc_ids", "forbidden", "must_contain", "nuggets", "wrong_answer")
KNOWN_SCENARIOS = ("counterfactual", "false_documents", "paraphrase", "typo", "unanswerable")


def sample_problems(path: Path, samples: Iterable[ParsedSample]) -> list[Problem]:
    """Return problems of valid records that scoring would reject."""
    found = []
    for line, sample, record in samples:
        try:
            for document in sample.relevant_docs or ():
                parse_level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id)
        except AueporaError as error:
            found.append(Problem(path, line, str(error), record))
        try:
            sample_rubric(sample)
        except AueporaError as error:
            found.append(Problem(path, line, f"labels.{error}", record))
        found += [Problem(path, line, message, record) for message in _group_problems(sample)]
        expected = sample.metadata.get("expected_doc_ids")
        if expected is not None and not (
            isinstance(expected, list) and all(isinstance(doc_id, str) for doc_id in expected)
        ):
            numbers = isinstance(expected, list) and any(isinstance(doc_id, int) for doc_id in expected)
            message = f"field 'metadata.expected_doc_ids' must be a list of ids{PUT_IN_QUOTES if numbers else ''}"
            found.append(Problem(path, line, message, record))
    return found


def _group_problems(sample: EvaluationSample) -> Iterator[str]:
    gold = [document.doc_id for document in sample.relevant_docs or ()]
    for place, group in enumerate(sample.relevant_groups):
        name = f"field 'relevant_groups[{place}]'"
        if not group:
            yield f"{name} is empty; a group names at least one id of relevant_docs"
        for doc_id in dict.fromkeys(group):
            if doc_id not in gold:
                yield f"{name} names {quote_text(doc_id)}, which is not in relevant_docs{did_you_mean(doc_id, gold)}"


def sample_warnings(path: Path, samples: Sequence[ParsedSample], unreadable_ids: Iterable[str] = ()) -> list[Problem]:
    """Return warnings about samples. ``unreadable_ids`` are ids of invalid records."""
    found = DataWarnings()
    parents = {read.sample.sample_id: _parent(read.sample) for read in samples}
    known = {*parents, *unreadable_ids}
    for read in samples:
        warn = partial(found.add, path=path, line=read.line, record=read.record)
        sample = read.sample
        if not sample.query.strip():
            warn("query", f"the query of sample {quote_text(sample.sample_id)} is empty")
        for doc_id, levels in _conflicting_levels(sample).items():
            twice = f"relevant_docs names {quote_text(doc_id)} with the levels {' and '.join(map(str, levels))}"
            warn("twins", f"{twice}; the highest counts")
        groups = {frozenset(group) for group in sample.relevant_groups}
        repeats_ids = any(len(set(group)) < len(group) for group in sample.relevant_groups)
        if repeats_ids or len(groups) < len(sample.relevant_groups):
            warn("groups", "relevant_groups names a group, or an id in a group, twice; it counts once")
        if is_unanswerable(sample) is None:
            warn("answerable", "labels.answerable is neither true nor false")
        try:
            sample_nuggets(sample)
        except AueporaError as error:
            warn("nuggets", f"metadata.{error}; nugget_recall cannot be measured")
        _check_variant(warn, sample, parents, known)
        _check_names(warn, sample)
    return found.summarize()


def _parent(sample: EvaluationSample) -> str | None:
    named = sample.labels.get("variant_of")
    return None if named is None else str(named)


def _conflicting_levels(sample: EvaluationSample) -> dict[str, list[int]]:
    """Return ids that occur more than once with different levels."""
    levels: dict[str, list[Any]] = {}
    for document in sample.relevant_docs or ():
        levels.setdefault(document.doc_id, []).append(document.metadata.get("relevance", 1))
    return {doc_id: some for doc_id, some in levels.items() if some.count(some[0]) < len(some)}


def _check_variant(
    warn: Callable[[str, str], None], sample: EvaluationSample, parents: Mapping[str, str | None], known: set[str]
) -> None:
    parent = _parent(sample)
    if parent is None:
        return
    if parent not in known:
        warn("parent", f"labels.variant_of is {quote_text(parent)}, which is the id of no sample")
    elif _is_cyclic(sample.sample_id, parents):
        warn("cycle", f"following labels.variant_of leads from {quote_text(sample.sample_id)} back to itself")
    if sample.labels.get("scenario") is None:
        warn("scenario", "labels.variant_of without labels.scenario: no metric knows what kind of variant")


def _is_cyclic(start: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents.get(start)
    while at is not None and at != start and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == start


def _check_names(warn: Callable[[str, str], None], sample: EvaluationSample) -> None:
    """Warn about names that are similar to the names that metrics use."""
    for holder, names, values in (
        ("labels", KNOWN_LABELS, sample.labels),
        ("metadata", KNOWN_METADATA, sample.metadata),
    ):
        for key in values:
            near = _close_match(key, names)
            if near is not None and near not in values:
                warn(f"{holder}.{key}", f"{holder} has {quote_text(key)}; did you mean {near!r}?")
    scenario = sample.labels.get("scenario")
    if isinstance(scenario, str) and (near := _close_match(scenario, KNOWN_SCENARIOS)) is not None:
        warn(f"scenario {scenario}", f"labels.scenario is {quote_text(scenario)}; did you mean {near!r}?")


@lru_cache(maxsize=4096)  # few distinct names, repeated in every sample
def _close_match(name: str, names: Sequence[str]) -> str | None:
    if name in names or len(name) > 40:
        return None
    plain = name.lower().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, names, n=1, cutoff=0.85)), None)


def output_problems(path: Path, outputs: Sequence[ParsedOutput], *, repeats: bool = True) -> list[Problem]:
    """Return problems of valid outputs that scoring would reject.

    Without ``repeats``, as under the conventions of TREC, a document that was retrieved twice is a problem.
    """
    found = [Problem(path, read.line, MISSING_RETRIEVED, read.record) for read in outputs_missing_ranking(outputs)]
    for read in () if repeats else outputs:
        twice = (
            None
            if read.output.error is not None
            else _first_duplicate([item.doc.doc_id for item in read.output.retrieved])
        )
        if twice is not None:
            sample = quote_text(read.sample_id)
            message = f"{quote_text(twice)} was returned twice for {sample}, which TREC's conventions forbid"
            found.append(Problem(path, read.line, message, read.record))
    return found


def _first_duplicate(ids: Sequence[str]) -> str | None:
    """Return the first repeated id."""
    if len(set(ids)) == len(ids):
        return None
    seen: set[str] = set()
    for doc_id in ids:
        if doc_id in seen:
            return doc_id
        seen.add(doc_id)
    return None


def output_warnings(path: Path, outputs: Sequence[ParsedOutput], *, repeats: bool = True) -> list[Problem]:
    """Return warnings about outputs; with ``repeats``, also about repeated documents."""
    found = DataWarnings()
    ranked = chain.from_iterable(read.output.retrieved for read in outputs)
    some_have_text = any(item.doc.text for item in ranked)
    for read in outputs:
        output, warn = read.output, partial(found.add, path=path, line=read.line, record=read.record)
        ranks = [item.rank for item in output.retrieved]
        if ranks != sorted(ranks):
            warn("rank", RANK_CONTRADICTION)
        elif ranks and ranks[0] < 1:
            warn("rank", f"'rank' is {ranks[0]}; ranks count from 1, and the list order is what counts")
        ids = [item.doc.doc_id for item in output.retrieved]
        if repeats and (twice := _first_duplicate(ids)) is not None:
            warn("twice", f"'retrieved' holds {quote_text(twice)} twice; it counts once, at its first position")
        for key, seconds in output.timings.items():
            if seconds < 0 and key != STARTED:
                warn(f"timings.{key}", f"timings.{key} is negative: {seconds:g}")
        answered = output.error is None and output.response is not None and output.response.text.strip()
        if answered and some_have_text and ids and not any(item.doc.text for item in output.retrieved):
            warn("text", "there is an answer but no text of any document to compare it with")
    return found.summarize()


# --- counts of fields: annotations, labels, scenarios, timings -------------------------------------------------------

SAMPLE_CHECKS: dict[str, Callable[[EvaluationSample], bool]] = {
    "relevant_docs": lambda s: s.relevant_docs is not None,
    "empty_gold": lambda s: s.relevant_docs == [],
    "graded": lambda s: any(doc.metadata.get("relevance", 1) != 1 for doc in s.relevant_docs or ()),
    "gold_with_text": lambda s: any(doc.text for doc in s.relevant_docs or ()),
    "gold_with_span": lambda s: any(doc.span is not None for doc in s.relevant_docs or ()),
    "candidate_docs": lambda s: s.candidate_docs is not None,
    "reference_answer": lambda s: s.reference_answer is not None,
    "several_references": lambda s: len(s.references) > 1,
    "structured_reference": lambda s: s.reference_answer is not None and s.reference_answer.structured is not None,
    "history": lambda s: bool(s.history),
    "cluster_id": lambda s: s.cluster_id is not None,
    "variants": lambda s: s.labels.get("variant_of") is not None,
    "unanswerable": lambda s: is_unanswerable(s) is True,
}
"""The checks that are counted, by the names in reports; labels and metadata are counted by key."""

OUTPUT_CHECKS: dict[str, Callable[[SystemOutputs], bool]] = {
    "retrieved": lambda o: bool(o.retrieved),
    "documents_with_text": lambda o: any(item.doc.text for item in o.retrieved),
    "scores": lambda o: any(item.score is not None for item in o.retrieved),
    "response": lambda o: o.response is not None,
    "empty_response": lambda o: o.response is not None and not o.response.text.strip(),
    "structured_response": lambda o: o.response is not None and o.response.structured is not None,
    "error": lambda o: o.error is not None,
    "refused": lambda o: bool(o.refused),
    "citations": lambda o: o.citations is not None or (o.response is not None and o.response.sentences is not None),
    "steps": lambda o: bool(o.steps),
    "usage": lambda o: bool(o.usage),
    "repeat": lambda o: o.repeat != 0,
}


def count_samples(samples: Iterable[EvaluationSample]) -> dict[str, Any]:
    """Count the samples, and how many have each annotation; labels, metadata and scenarios by key."""
    counts: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    metadata: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    variants: Counter[str] = Counter()
    for sample in samples:
        counts["samples"] += 1
        counts["groups"] += len(sample.relevant_groups)
        counts.update(name for name, check in SAMPLE_CHECKS.items() if check(sample))
        labels.update(map(str, sample.labels))
        metadata.update(map(str, sample.metadata))
        scenario = sample.labels.get("scenario")
        if scenario is not None:
            scenarios[str(scenario)] += 1
        if sample.labels.get("variant_of") is not None:
            variants["(none)" if scenario is None else str(scenario)] += 1
    grouped = {"groups": counts["groups"]} if counts["groups"] else {}
    return {
        "samples": counts["samples"],
        **{name: counts[name] for name in SAMPLE_CHECKS},
        **grouped,
        "variants_by_scenario": dict(variants),
        "scenarios": dict(scenarios),
        "labels": dict(labels),
        "metadata": dict(metadata),
    }


def count_outputs(outputs: Iterable[SystemOutputs]) -> dict[str, Any]:
    """Count the outputs, and how many have each field; timings by key."""
    counts: Counter[str] = Counter()
    timings: Counter[str] = Counter()
    for output in outputs:
        counts["outputs"] += 1
        counts.update(name for name, check in OUTPUT_CHECKS.items() if check(output))
        timings.update(list(output.timings))
    return {"outputs": counts["outputs"], **{name: counts[name] for name in OUTPUT_CHECKS}, "timings": dict(timings)}


# --- files: dataset, outputs, corpus and nuggets, read completely, with their problems -------------------------------

RecordT = TypeVar("RecordT", ParsedSample, ParsedOutput)


@dataclass(frozen=True, slots=True)
class ParsedFile(Generic[RecordT]):
    """A file that was read completely."""

    path: Path
    format: Format | None
    records: list[RecordT]
    found: Problems

    @property
    def unidentified_note(self) -> str:
        """A clause for an id that is missing, where there are invalid records without a readable id."""
        invalid = {(problem.line, problem.record) for problem in self.found.found}
        is_possible = len(invalid) > len(self.found.unreadable_ids)
        return " (unless it is in a record that cannot be read)" if is_possible else ""


def fill_from_corpus(
    path: Path, samples: ParsedFile[ParsedSample], outputs: ParsedFile[ParsedOutput] | None
) -> tuple[int, Problems]:
    """Add the texts of a corpus to documents without text; return the number of its documents, and what is wrong."""
    found = Problems(collect_all=True)
    try:
        corpus = Corpus.open(path, found)
    except AueporaError as error:
        found.add_error(path, error)
        return 0, found
    with corpus:
        corpus_join = CorpusJoin(corpus)

        def check(file: Path, line: int | None, record: int | None, documents: Iterable[Document]) -> None:
            for doc_id in dict.fromkeys(document.doc_id for document in documents if not document.text):
                if doc_id not in corpus:
                    message = f"document {quote_text(doc_id)} is not in the corpus {path} and stays without text"
                    found.warnings.add(f"document {doc_id}", message, path=file, line=line, record=record)

        for index, (line, sample, record) in enumerate(samples.records):
            check(samples.path, line, record, [*(sample.relevant_docs or ()), *(sample.candidate_docs or ())])
            samples.records[index] = ParsedSample(line, corpus_join.fill_sample(sample), record)
        for index, read in enumerate(() if outputs is None else outputs.records):
            assert outputs is not None
            check(outputs.path, read.line, read.record, [item.doc for item in read.output.retrieved])
            outputs.records[index] = read._replace(output=corpus_join.fill_output(read.output))
    return len(corpus), found


def attach_nuggets(path: Path, samples: ParsedFile[ParsedSample]) -> Problems:
    """Attach the nuggets of a file to the samples; return its problems and warnings."""
    found = Problems(collect_all=True)
    try:
        known = NuggetsById(list(iter_nuggets(path, found)))
    except AueporaError as error:
        found.add_error(path, error)
        return found
    samples.records[:] = [read._replace(sample=known.attach(read.sample)) for read in samples.records]
    message, all_unused = known.unused()
    if all_unused:
        found.add(path, None, message)
    elif message:
        found.warnings.add("nuggets", message, path=path, line=None)
    return found


def locate_run_duplicates(outputs: ParsedFile[ParsedOutput], problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems; for duplicate documents in a TREC run, one for each line instead."""
    if (outputs.format is None or outputs.format.name != "trec") or not problems:
        return list(problems)
    from .trec_format import duplicate_run_lines

    return [
        Problem(
            outputs.path,
            line,
            f"{quote_text(doc)} is already on line {first} for {quote_text(query)}; each may come once",
        )
        for line, query, doc, first in duplicate_run_lines(outputs.path)
    ]


# --- the validation: problems, warnings, counts of fields, supported targets -----------------------------------------

SCHEMA = 1
MAX_SUGGESTIONS = 20
"""Up to this number of unmatched ids, similar ids of the other file are suggested; more would take too long."""
_NO_RECORD = "there is no {} in it"
_NO_GOLD_ADVICE = (
    "no sample has relevant_docs or reference_answer: correct and wrong answers cannot be distinguished, and "
    "answer_relevance is only word overlap with the question",
    "judges: metrics that a model gives without gold, such as `auepora score DATASET OUTPUTS -m llm_faithfulness "
    "--judge-model MODEL`",
    "pooling: relevance grades for what your runs returned, with `auepora pool RUN ...`, `auepora judge relevance` and "
    "`auepora rescore --qrels`",
    "labels: human labels of some answers, with `auepora label RUN`; `auepora judge calibrate` then measures how well "
    "a judge agrees with them",
)
_FIELD = re.compile(r"(?:unknown )?field ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating a dataset and its outputs."""

    files: dict[str, tuple[Path, str | None]]
    """The files, each with the name of its format; ``None`` if it cannot be detected."""
    problems: list[Problem]
    """Problems that prevent scoring, in the order of files and lines."""
    warnings: list[Problem]
    """Data that can be scored but is probably wrong."""
    samples: dict[str, Any]
    """Counts; see ``count_samples``."""
    outputs: dict[str, Any] | None
    """Counts; ``None`` without outputs."""
    targets: list[TargetSupport] = field(default_factory=list)
    documents: int | None = None
    """The number of documents in the corpus; ``None`` without a corpus."""

    @property
    def advice(self) -> list[str]:
        """Advice for samples without gold; empty if there is gold or a rubric, or no sample."""
        gold = (self.samples["relevant_docs"], self.samples["reference_answer"], RUBRIC_KEY in self.samples["labels"])
        if not self.samples["samples"] or any(gold):
            return []
        return list(_NO_GOLD_ADVICE)

    def describe_count(self, name: str) -> str:
        """How many samples, or outputs, have a field: ``121 of 135 samples``."""
        section, _, key = name.rpartition(".")
        counts = self.samples[section] if section else self.samples
        if section or name in counts:
            return f"{counts.get(key, 0)} of {self.samples['samples']} samples"
        if self.outputs is None:
            return "outputs that are not given"
        number = max(self.outputs[name].values(), default=0) if name == "timings" else self.outputs[name]
        return f"{number} of {self.outputs['outputs']} outputs"

    @property
    def is_valid(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The validation document (schema 1)."""
        return {
            "schema": SCHEMA,
            "fine": self.is_valid,
            "files": {role: {"path": str(path), "format": name} for role, (path, name) in self.files.items()},
            "problems": [_problem_to_dict(problem) for problem in self.problems],
            "warnings": [_problem_to_dict(problem) for problem in self.warnings],
            "samples": self.samples,
            "outputs": self.outputs,
            "documents": self.documents,
            "targets": [
                {
                    "target": target.target.name,
                    "supported": bool(target.metrics),
                    "metrics": list(target.metrics),
                    "missing": target.missing or None,
                }
                for target in self.targets
            ],
            "advice": self.advice,
        }


def validate_files(
    dataset: str | Path,
    outputs: str | Path | None = None,
    *,
    dataset_format: str | None = None,
    outputs_format: str | None = None,
    corpus: str | Path | None = None,
    nuggets: str | Path | None = None,
    columns: Columns | None = None,
    outputs_columns: Columns | None = None,
    targets: Collection[TargetCategory] = (),
) -> Validation:
    """Read a dataset and its outputs completely and report every problem.

    ``targets`` are those whose metrics are listed, with those that are no defaults; without, default metrics are.

    ``columns`` and ``outputs_columns`` name the columns of a table by field.

    A format that stores a sample and its output in one record is checked for both, even if only the dataset is named.
    With a ``corpus``, documents without text get its texts, and missing ids are reported. With a file of ``nuggets``,
    samples get those of their ids, and unused ones are reported.
    """
    dataset = Path(dataset)
    with gc_paused():
        samples: ParsedFile[ParsedSample] = _read_file(dataset, "samples", dataset_format, columns)
        outputs_file = (
            _outputs_in_same_file(samples)
            if outputs is None
            else _read_file(Path(outputs), "outputs", outputs_format, outputs_columns)
        )
        documents = None
        aids: dict[str, tuple[Path, Problems]] = {}
        if corpus is not None:
            documents, found = fill_from_corpus(Path(corpus), samples, outputs_file)
            aids["corpus"] = (Path(corpus), found)
        if nuggets is not None:
            aids["nuggets"] = (Path(nuggets), attach_nuggets(Path(nuggets), samples))
        rows = [read.sample for read in samples.records]
        problems = [samples.found.found + sample_problems(dataset, samples.records)]
        warnings = samples.found.warnings.summarize()
        warnings += sample_warnings(dataset, samples.records, samples.found.unreadable_ids)
        files: dict[str, tuple[Path, str | None]] = {"samples": (dataset, _format_name(samples))}
        output_counts = None
        if outputs_file is None:
            support = supported_targets(rows, None, targets=targets)
        else:
            files["outputs"] = (outputs_file.path, _format_name(outputs_file))
            rules = Conventions.of(None if samples.format is None else samples.format.conventions)
            invalid = output_problems(outputs_file.path, outputs_file.records, repeats=rules.duplicates != "error")
            problems.append(outputs_file.found.found + locate_run_duplicates(outputs_file, invalid))
            if outputs_file.path == dataset:
                problems = [problems[0] + problems[1]]
            # Last: unmatched ids are often those of invalid records.
            problems += _unmatched_ids(samples, outputs_file)
            warnings += outputs_file.found.warnings.summarize() + output_warnings(
                outputs_file.path, outputs_file.records, repeats=rules.duplicates != "error"
            )
            by_id = {read.sample_id: read.output for read in outputs_file.records}
            output_counts = count_outputs(by_id.values())
            support = _targets(rows, by_id, outputs_file, targets)
        for role, (path, found) in aids.items():
            files[role] = (path, role)
            problems.append(found.found)
            warnings += found.warnings.summarize()
    return Validation(
        files,
        problems=_sort_problems(problems),
        warnings=list(dict.fromkeys(warnings)),
        samples=count_samples(rows),
        outputs=output_counts,
        targets=support,
        documents=documents,
    )


def _format_name(file: ParsedFile[Any]) -> str | None:
    return None if file.format is None else file.format.name


def _targets(
    rows: list[EvaluationSample],
    by_id: Mapping[str, SystemOutputs],
    outputs: ParsedFile[ParsedOutput],
    targets: Collection[TargetCategory],
) -> list[TargetSupport]:
    aligned = [by_id.get(row.sample_id) for row in rows]
    if not any(output is not None for output in aligned):
        why = "no output could be read" if not by_id else "no output belongs to a sample"
        return [TargetSupport(target, (), why) for target in TARGETS]
    retrieves = any(read.has_retrieved for read in outputs.records)
    return supported_targets(rows, aligned, retrieves=retrieves, targets=targets)


def _read_file(path: Path, role: Role, name: str | None, columns: Columns | None) -> ParsedFile[Any]:
    """Read a file completely; an unknown format or a missing file is a problem, too."""
    found = Problems(collect_all=True)
    try:
        chosen = resolve_format(path, role, name, columns)
    except DataFileError as error:
        found.add_error(path, error)
        return ParsedFile(path, None, [], found)
    return ParsedFile(path, chosen, _records(path, chosen, role, found), found)


def _outputs_in_same_file(samples: ParsedFile[ParsedSample]) -> ParsedFile[ParsedOutput] | None:
    """Read the outputs in the file of the samples, if its format stores both and there are any."""
    chosen = samples.format
    if chosen is None or not chosen.one_file:
        return None
    found = Problems(collect_all=True)
    outputs: ParsedFile[ParsedOutput] = ParsedFile(
        samples.path, chosen, _records(samples.path, chosen, "outputs", found), found
    )
    nothing = [Problem(samples.path, None, _NO_RECORD.format("output"))]
    return None if not outputs.records and found.found in ([], nothing) else outputs


def _records(path: Path, chosen: Format, role: Role, problems: Problems) -> list[Any]:
    found: list[Any] = []
    try:
        found.extend(chosen.read(role, path, problems))  # records before an error are kept
    except AueporaError as error:  # the file cannot be read further
        problems.add_error(path, error)
    if not found and not problems.found:
        problems.add(path, None, _NO_RECORD.format(role[:-1]))
    return found


def _unmatched_ids(
    samples: ParsedFile[ParsedSample], outputs: ParsedFile[ParsedOutput]
) -> tuple[list[Problem], list[Problem]]:
    """Return problems for samples without an output, and for outputs without a sample."""
    sample_positions = {read.sample.sample_id: (read.line, read.record) for read in samples.records}
    output_positions = {read.sample_id: (read.line, read.record) for read in outputs.records}
    if not sample_positions or not output_positions:
        return [], []
    missing = {
        sample_id: where
        for sample_id, where in sample_positions.items()
        if sample_id not in output_positions and sample_id not in outputs.found.unreadable_ids
    }
    unknown = {
        sample_id: where
        for sample_id, where in output_positions.items()
        if sample_id not in sample_positions and sample_id not in samples.found.unreadable_ids
    }
    try:
        require_same_questions(outputs.path, outputs.records, (read.sample for read in samples.records))
        if len(missing) == len(sample_positions) and len(unknown) == len(output_positions):
            require_common_id(len(missing), list(missing), list(unknown))
    except AueporaError as error:
        outputs.found.add_error(outputs.path, error)
        return [], outputs.found.found[-1:]
    no_output, no_sample = outputs.unidentified_note, samples.unidentified_note
    near = missing if 0 < len(missing) <= MAX_SUGGESTIONS and len(unknown) <= MAX_SUGGESTIONS else {}
    return (
        [
            Problem(samples.path, line, f"sample {sample_id!r} has no output in {outputs.path}{no_output}", record)
            for sample_id, (line, record) in missing.items()
        ],
        [
            Problem(
                outputs.path,
                line,
                f"no sample of {samples.path} has the sample_id {sample_id!r}{no_sample}"
                f"{did_you_mean(sample_id, near)}",
                record,
            )
            for sample_id, (line, record) in unknown.items()
        ],
    )


def _sort_problems(lists: list[list[Problem]]) -> list[Problem]:
    """Sort the problems of each file by line, without duplicates: a record may be read for both roles."""
    ordered: dict[Problem, None] = {}
    for problems in lists:
        ordered |= dict.fromkeys(sorted(problems, key=lambda problem: (problem.line or 0, problem.record or 0)))
    return list(ordered)


def _problem_to_dict(problem: Problem) -> Mapping[str, Any]:
    named = _FIELD.match(problem.message)
    return {
        "file": str(problem.path),
        "line": problem.line,
        "record": problem.record,
        "field": None if named is None else ast.literal_eval(named[1]),
        "message": problem.message,
    }
