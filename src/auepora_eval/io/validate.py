"""Validation of a dataset and its outputs: problems, warnings, counts of fields, supported targets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..core.conventions import Conventions, auto_conventions
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import AueporaError, DataFileError, did_you_mean
from ..judge.rubric import RUBRIC_KEY
from ..runtime.processes import gc_paused
from .corpus import Corpus, CorpusJoin
from .formats import Format, Role
from .join import Columns, require_common_id, resolve_format
from .labels import NuggetsById, iter_nuggets
from .problems import ParsedOutput, ParsedSample, Problem, Problems, quote_text
from .validate_checks import (
    TargetSupport,
    count_outputs,
    count_samples,
    no_support,
    output_problems,
    output_warnings,
    sample_problems,
    sample_warnings,
    supported_targets,
)

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
    def has_unidentified(self) -> bool:
        """Whether there are invalid records without a readable id."""
        found = self.found
        return len({(problem.line, problem.record) for problem in found.found}) > len(found.unreadable_ids)


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
            for doc_id in dict.fromkeys(one.doc_id for one in documents if not one.text):
                if doc_id not in corpus:
                    message = f"document {quote_text(doc_id)} is not in the corpus {path} and stays without text"
                    found.warnings.add(f"document {doc_id}", file, line, message, record=record)

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
        found.warnings.add("nuggets", path, None, message)
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
    """Counts; see ``validate_checks.count_samples``."""
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
            "problems": list(map(_problem_to_dict, self.problems)),
            "warnings": list(map(_problem_to_dict, self.warnings)),
            "samples": self.samples,
            "outputs": self.outputs,
            "documents": self.documents,
            "targets": [
                {
                    "target": one.target.name,
                    "supported": bool(one.metrics),
                    "metrics": list(one.metrics),
                    "missing": one.missing or None,
                }
                for one in self.targets
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
) -> Validation:
    """Read a dataset and its outputs completely and report every problem.

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
            targets = supported_targets(rows, None)
        else:
            files["outputs"] = (outputs_file.path, _format_name(outputs_file))
            judged_pool = samples.format is not None and samples.format.judged_pool
            repeats = Conventions.of(auto_conventions(judged_pool=judged_pool)).duplicates != "error"
            invalid = output_problems(outputs_file.path, outputs_file.records, repeats=repeats)
            problems.append(outputs_file.found.found + locate_run_duplicates(outputs_file, invalid))
            if outputs_file.path == dataset:
                problems = [problems[0] + problems[1]]
            # Last: unmatched ids are often those of invalid records.
            problems += _unmatched_ids(samples, outputs_file)
            warnings += outputs_file.found.warnings.summarize() + output_warnings(
                outputs_file.path, outputs_file.records, repeats=repeats
            )
            by_id = {read.sample_id: read.output for read in outputs_file.records}
            output_counts = count_outputs(by_id.values())
            targets = _targets(rows, by_id, outputs_file)
        for role, (path, found) in aids.items():
            files[role] = (path, role)
            problems.append(found.found)
            warnings += found.warnings.summarize()
    return Validation(
        files,
        _sort_problems(problems),
        list(dict.fromkeys(warnings)),
        count_samples(rows),
        output_counts,
        targets,
        documents,
    )


def _format_name(file: ParsedFile[Any]) -> str | None:
    return None if file.format is None else file.format.name


def _targets(
    rows: list[EvaluationSample], by_id: Mapping[str, SystemOutputs], outputs: ParsedFile[ParsedOutput]
) -> list[TargetSupport]:
    aligned = [by_id.get(row.sample_id) for row in rows]
    if not any(output is not None for output in aligned):
        return no_support("no output could be read" if not by_id else "no output belongs to a sample")
    return supported_targets(rows, aligned, retrieves=any(read.has_retrieved for read in outputs.records))


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
        one: where
        for one, where in sample_positions.items()
        if one not in output_positions and one not in outputs.found.unreadable_ids
    }
    unknown = {
        one: where
        for one, where in output_positions.items()
        if one not in sample_positions and one not in samples.found.unreadable_ids
    }
    if len(missing) == len(sample_positions) and len(unknown) == len(output_positions):
        try:
            require_common_id(len(missing), list(missing), list(unknown))
        except AueporaError as error:
            return [], [Problem(outputs.path, None, str(error))]
    no_output, no_sample = (
        " (unless it is in a record that cannot be read)" if file.has_unidentified else ""
        for file in (outputs, samples)
    )
    near = missing if 0 < len(missing) <= MAX_SUGGESTIONS and len(unknown) <= MAX_SUGGESTIONS else {}
    return (
        [
            Problem(samples.path, line, f"sample {one!r} has no output in {outputs.path}{no_output}", record)
            for one, (line, record) in missing.items()
        ],
        [
            Problem(
                outputs.path,
                line,
                f"no sample of {samples.path} has the sample_id {one!r}{no_sample}{did_you_mean(one, near)}",
                record,
            )
            for one, (line, record) in unknown.items()
        ],
    )


def _sort_problems(lists: list[list[Problem]]) -> list[Problem]:
    """Sort the problems of each file by line, without duplicates: a record may be read for both roles."""
    ordered = [one for some in lists for one in sorted(some, key=lambda one: (one.line or 0, one.record or 0))]
    return list(dict.fromkeys(ordered))


def _problem_to_dict(problem: Problem) -> Mapping[str, Any]:
    named = _FIELD.match(problem.message)
    return {
        "file": str(problem.path),
        "line": problem.line,
        "record": problem.record,
        "field": None if named is None else ast.literal_eval(named[1]),
        "message": problem.message,
    }
