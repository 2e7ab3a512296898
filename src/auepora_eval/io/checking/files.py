"""Files that were read to their end whatever is wrong with them: dataset, outputs, and the corpus of their texts."""

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
    """A file that was read to its end."""

    path: Path
    format: Format | None
    records: list[RecordT]
    found: Problems

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with it."""
        return self.found.found

    @property
    def warnings(self) -> DataWarnings:
        """What is odd about how it is written."""
        return self.found.warnings

    @property
    def unreadable_ids(self) -> set[str]:
        """Ids of records that have a problem but say whose they are."""
        return self.found.unreadable_ids

    @property
    def format_name(self) -> str | None:
        """The name of its format; ``None`` where it cannot be told."""
        return None if self.format is None else self.format.name

    @property
    def is_judged_pool(self) -> bool:
        """Whether this is what trec_eval would be given."""
        return self.format is not None and self.format.judged_pool

    @property
    def has_unidentified(self) -> bool:
        """Whether there are records with problems that do not say whose they are."""
        return len({(problem.line, problem.record) for problem in self.problems}) > len(self.unreadable_ids)


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """What there is to say about a corpus, and about what it lacks."""

    path: Path
    documents: int
    problems: list[Problem]
    warnings: DataWarnings


def fill_from_corpus(
    path: Path, samples: ParsedFile[ParsedSample], outputs: ParsedFile[ParsedOutput] | None
) -> CorpusCheck:
    """Put the texts of a corpus where documents are only named; what it does not have is taken down."""
    found = Problems(gather=True)
    try:
        corpus = Corpus.open(path, found)
    except AueporaError as error:
        found.add_error(path, error)
        return CorpusCheck(path, 0, found.found, found.warnings)
    with corpus:
        filling = CorpusJoin(corpus)

        def look(file: Path, line: int | None, record: int | None, documents: Iterable[Document]) -> None:
            for doc_id in dict.fromkeys(one.doc_id for one in documents if not one.text):
                if doc_id not in corpus:
                    message = f"document {quote_text(doc_id)} is not in the corpus {path} and stays without text"
                    found.warnings.add(f"document {doc_id}", file, line, message, record=record)

        for place, (line, sample, record) in enumerate(samples.records):
            look(samples.path, line, record, [*(sample.relevant_docs or ()), *(sample.candidate_docs or ())])
            samples.records[place] = ParsedSample(line, filling.sample(sample), record)
        for place, read in enumerate(() if outputs is None else outputs.records):
            assert outputs is not None
            look(outputs.path, read.line, read.record, [item.doc for item in read.output.retrieved])
            outputs.records[place] = read._replace(output=filling.output(read.output))
    return CorpusCheck(path, len(corpus), found.found, found.warnings)


def attach_nuggets(path: Path, samples: ParsedFile[ParsedSample]) -> Problems:
    """Give samples the nuggets of a file by their ids; what is wrong with it, and which ones belong to no sample."""
    found = Problems(gather=True)
    try:
        known = NuggetsById(list(iter_nuggets(path, found)))
    except AueporaError as error:
        found.add_error(path, error)
        return found
    samples.records[:] = [read._replace(sample=known.sample(read.sample)) for read in samples.records]
    told, all_of_them = known.unused()
    if all_of_them:
        found.add(path, None, told)
    elif told:
        found.warnings.add("nuggets", path, None, told)
    return found


def locate_run_duplicates(outputs: ParsedFile[ParsedOutput], problems: Sequence[Problem]) -> list[Problem]:
    """The problems; where they are documents that come twice in a TREC run, by its lines, one for each."""
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
