"""Loading of datasets and outputs from files of any format, for the CLI, the client and plans."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..core.dataset import InMemoryDataset, LazyDataset
from ..core.errors import BadValueError, DataFileError
from ..core.gc_pause import gc_paused
from ..core.types import EvaluationSample, SystemOutputs
from .corpus import Corpus, CorpusJoin
from .files import plain_stem
from .formats import Format, Role, get_format, guess_format
from .jsonl import OutputsFile, gathered_outputs
from .nuggets import with_nuggets
from .reader_types import ParsedOutput, ParsedSample, Problems

__all__ = [
    "iter_outputs",
    "iter_samples",
    "load_dataset",
    "load_outputs",
    "open_dataset",
    "read_outputs_file",
    "resolve_format",
]


def resolve_format(path: Path, role: Role, name: str | None = None) -> Format:
    """Return the format of that name, or the detected one; it must support reading this role."""
    if name is None:
        return guess_format(path, role)
    chosen = get_format(name)
    if not chosen.reads(role):
        raise BadValueError(f"the format '{name}' has no {role}")
    return chosen


def iter_samples(
    path: str | Path, format: str | None = None, problems: Problems | None = None
) -> Iterator[ParsedSample]:
    """Yield the samples of a file with their lines."""
    path = Path(path)
    read = resolve_format(path, "samples", format).read_samples
    assert read is not None
    return read(path, problems or Problems())


def iter_outputs(
    path: str | Path, format: str | None = None, problems: Problems | None = None
) -> Iterator[ParsedOutput]:
    """Yield the outputs of a file with their lines."""
    path = Path(path)
    read = resolve_format(path, "outputs", format).read_outputs
    assert read is not None
    return read(path, problems or Problems())


def load_dataset(
    path: str | Path,
    format: str | None = None,
    *,
    name: str | None = None,
    corpus: str | Path | Corpus | None = None,
    nuggets: str | Path | None = None,
) -> InMemoryDataset:
    """Load the samples of a file, in its order. Without ``format`` it is detected.

    With a ``corpus``, documents without text get its texts; with a file of ``nuggets``, samples get those of their
    ids.
    """
    path = Path(path)
    with _open_corpus_join(corpus) as corpus_join, gc_paused():
        parsed = (read.sample for read in iter_samples(path, format))
        samples: list[EvaluationSample] = list(parsed if corpus_join is None else map(corpus_join.fill_sample, parsed))
    if not samples:
        raise DataFileError(path, None, "there is no sample in it")
    if nuggets is not None:
        samples = list(with_nuggets(samples, nuggets))
    return InMemoryDataset(plain_stem(path) if name is None else name, samples)


def open_dataset(path: str | Path, format: str | None = None, *, name: str | None = None) -> LazyDataset:
    """Open the samples of a file lazily: they are read on each iteration and never all in memory."""
    path = Path(path)
    chosen = resolve_format(path, "samples", format).name
    return LazyDataset(
        plain_stem(path) if name is None else name, lambda: (read.sample for read in iter_samples(path, chosen))
    )


def load_outputs(
    path: str | Path, format: str | None = None, *, corpus: str | Path | Corpus | None = None
) -> dict[str, SystemOutputs]:
    """Load the outputs of a file by sample id, in its order. Without ``format`` it is detected.

    With a ``corpus``, retrieved documents without text get its texts.
    """
    return read_outputs_file(path, format, corpus=corpus).outputs


def read_outputs_file(
    path: str | Path, format: str | None = None, *, corpus: str | Path | Corpus | None = None
) -> OutputsFile:
    """Like ``load_outputs``, with ``answers_only``."""
    path = Path(path)
    with _open_corpus_join(corpus) as corpus_join, gc_paused():
        outputs = iter_outputs(path, format)
        if corpus_join is not None:
            outputs = (read._replace(output=corpus_join.fill_output(read.output)) for read in outputs)
        read = gathered_outputs(path, outputs, Problems())
    if not read.outputs:
        raise DataFileError(path, None, "there is no output in it")
    return read


@contextlib.contextmanager
def _open_corpus_join(corpus: str | Path | Corpus | None) -> Iterator[CorpusJoin | None]:
    """Open a join with the corpus, if there is one; a corpus that is opened here is closed again."""
    if corpus is None:
        yield None
        return
    opened = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    corpus_join = CorpusJoin(opened)
    try:
        yield corpus_join
    finally:
        if opened is not corpus:
            opened.close()
    corpus_join.report(stacklevel=4)
