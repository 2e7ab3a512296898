"""Files that were read completely, with their problems: dataset, outputs, corpus and nuggets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ...core.errors import AueporaError
from ...core.types import Document
from ..corpus import Corpus, CorpusJoin
from ..formats import Format
from ..nuggets import NuggetsById, iter_nuggets
from ..problem_messages import quote_text
from ..reader_types import DataWarnings, ParsedOutput, ParsedSample, Problem, Problems

__all__ = ["CorpusCheck", "ParsedFile", "RecordT", "attach_nuggets", "fill_from_corpus", "locate_run_duplicates"]

RecordT = TypeVar("RecordT", ParsedSample, ParsedOutput)


@dataclass(frozen=True, slots=True)
class ParsedFile(Generic[RecordT]):
    """A file that was read completely."""

    path: Path
    format: Format | None
    records: list[RecordT]
    found: Problems

    @property
    def problems(self) -> list[Problem]:
        """The problems of the file."""
        return self.found.found

    @property
    def warnings(self) -> DataWarnings:
        """The warnings about the file."""
        return self.found.warnings

    @property
    def unreadable_ids(self) -> set[str]:
        """Ids of invalid records whose id can be read."""
        return self.found.unreadable_ids

    @property
    def format_name(self) -> str | None:
        """The name of its format; ``None`` if it cannot be detected."""
        return None if self.format is None else self.format.name

    @property
    def is_judged_pool(self) -> bool:
        """Whether the samples are TREC judgements."""
        return self.format is not None and self.format.judged_pool

    @property
    def has_unidentified(self) -> bool:
        """Whether there are invalid records without a readable id."""
        return len({(problem.line, problem.record) for problem in self.problems}) > len(self.unreadable_ids)


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """The problems and warnings of a corpus."""

    path: Path
    documents: int
    problems: list[Problem]
    warnings: DataWarnings


def fill_from_corpus(
    path: Path, samples: ParsedFile[ParsedSample], outputs: ParsedFile[ParsedOutput] | None
) -> CorpusCheck:
    """Add the texts of a corpus to documents without text, and warn about missing ids."""
    found = Problems(collect_all=True)
    try:
        corpus = Corpus.open(path, found)
    except AueporaError as error:
        found.add_error(path, error)
        return CorpusCheck(path, 0, found.found, found.warnings)
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
    return CorpusCheck(path, len(corpus), found.found, found.warnings)


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
    if outputs.format_name != "trec" or not problems:
        return list(problems)
    from ..trec_format import duplicate_run_lines

    return [
        Problem(
            outputs.path,
            line,
            f"{quote_text(doc)} is already on line {first} for {quote_text(query)}; each may come once",
        )
        for line, query, doc, first in duplicate_run_lines(outputs.path)
    ]
