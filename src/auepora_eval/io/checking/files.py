"""Files that were read to their end whatever is wrong with them: dataset, outputs, and the corpus of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ...core.errors import AueporaError
from ...core.types import Document
from ..corpus import Corpus, Filling
from ..formats import Format
from ..nuggets import KnownNuggets, iter_nuggets
from ..problems import shown
from ..reading import Findings, Problem, Problems, ReadOutput, ReadSample

__all__ = ["ReadCorpus", "ReadFile", "RecordT", "filled_from", "given_nuggets", "with_lines_of_run"]

RecordT = TypeVar("RecordT", ReadSample, ReadOutput)


@dataclass(frozen=True, slots=True)
class ReadFile(Generic[RecordT]):
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
    def warnings(self) -> Findings:
        """What is odd about how it is written."""
        return self.found.warnings

    @property
    def unread(self) -> set[str]:
        """Ids of records that have a problem but say whose they are."""
        return self.found.unread

    @property
    def format_name(self) -> str | None:
        """The name of its format; ``None`` where it cannot be told."""
        return None if self.format is None else self.format.name

    @property
    def is_judged_pool(self) -> bool:
        """Whether this is what trec_eval would be given."""
        return self.format is not None and self.format.judged_pool

    @property
    def has_nameless(self) -> bool:
        """Whether there are records with problems that do not say whose they are."""
        return len({(problem.line, problem.record) for problem in self.problems}) > len(self.unread)


@dataclass(frozen=True, slots=True)
class ReadCorpus:
    """What there is to say about a corpus, and about what it lacks."""

    path: Path
    documents: int
    problems: list[Problem]
    warnings: Findings


def filled_from(path: Path, samples: ReadFile[ReadSample], outputs: ReadFile[ReadOutput] | None) -> ReadCorpus:
    """Put the texts of a corpus where documents are only named; what it does not have is taken down."""
    found = Problems(gather=True)
    try:
        corpus = Corpus.open(path, found)
    except AueporaError as error:
        found.add_error(path, error)
        return ReadCorpus(path, 0, found.found, found.warnings)
    with corpus:
        filling = Filling(corpus)

        def look(file: Path, line: int | None, record: int | None, documents: Iterable[Document]) -> None:
            for doc_id in dict.fromkeys(one.doc_id for one in documents if not one.text):
                if doc_id not in corpus:
                    message = f"document {shown(doc_id)} is not in the corpus {path} and stays without text"
                    found.warnings.add(f"document {doc_id}", file, line, message, record=record)

        for place, (line, sample, record) in enumerate(samples.records):
            look(samples.path, line, record, [*(sample.relevant_docs or ()), *(sample.candidate_docs or ())])
            samples.records[place] = ReadSample(line, filling.sample(sample), record)
        for place, read in enumerate(() if outputs is None else outputs.records):
            assert outputs is not None
            look(outputs.path, read.line, read.record, [item.doc for item in read.output.retrieved])
            outputs.records[place] = read._replace(output=filling.output(read.output))
    return ReadCorpus(path, len(corpus), found.found, found.warnings)


def given_nuggets(path: Path, samples: ReadFile[ReadSample]) -> Problems:
    """Give samples the nuggets of a file by their ids; what is wrong with it, and which ones belong to no sample."""
    found = Problems(gather=True)
    try:
        known = KnownNuggets(list(iter_nuggets(path, found)))
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


def with_lines_of_run(outputs: ReadFile[ReadOutput], problems: Sequence[Problem]) -> list[Problem]:
    """The problems; where they are documents that come twice in a TREC run, by its lines, one for each."""
    if outputs.format_name != "trec" or not problems:
        return list(problems)
    from ..trec_format import repeated_in_run

    return [
        Problem(outputs.path, line, f"{shown(doc)} is already on line {first} for {shown(query)}; each may come once")
        for line, query, doc, first in repeated_in_run(outputs.path)
    ]
