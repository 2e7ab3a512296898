"""Datasets and outputs from files of any format: the one way in for the command, the client and plans."""

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
    """The format of that name, or the one the file is probably in; one that can be read for this role."""
    if name is None:
        return guess_format(path, role)
    chosen = get_format(name)
    if not chosen.reads(role):
        raise BadValueError(f"the format '{name}' has no {role}")
    return chosen


def iter_samples(
    path: str | Path, format: str | None = None, problems: Problems | None = None
) -> Iterator[ParsedSample]:
    """The samples of a file with their lines, one after the other."""
    path = Path(path)
    read = resolve_format(path, "samples", format).read_samples
    assert read is not None
    return read(path, problems or Problems())


def iter_outputs(
    path: str | Path, format: str | None = None, problems: Problems | None = None
) -> Iterator[ParsedOutput]:
    """The outputs of a file with their lines, one after the other."""
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
    """The samples of a file, in its order. Without ``format`` it is guessed from the file.

    With a ``corpus``, documents that are only named by their ids have its texts; with a file of ``nuggets``, samples
    have those of their ids.
    """
    path = Path(path)
    with _open_corpus_join(corpus) as filling, gc_paused():
        read_ones = (read.sample for read in iter_samples(path, format))
        samples: list[EvaluationSample] = list(read_ones if filling is None else map(filling.sample, read_ones))
    if not samples:
        raise DataFileError(path, None, "there is no sample in it")
    if nuggets is not None:
        samples = list(with_nuggets(samples, nuggets))
    return InMemoryDataset(plain_stem(path) if name is None else name, samples)


def open_dataset(path: str | Path, format: str | None = None, *, name: str | None = None) -> LazyDataset:
    """The samples of a file, read each time they are gone through and never all held."""
    path = Path(path)
    chosen = resolve_format(path, "samples", format).name
    return LazyDataset(
        plain_stem(path) if name is None else name, lambda: (read.sample for read in iter_samples(path, chosen))
    )


def load_outputs(
    path: str | Path, format: str | None = None, *, corpus: str | Path | Corpus | None = None
) -> dict[str, SystemOutputs]:
    """The outputs of a file by sample id, in its order. Without ``format`` it is guessed from the file.

    With a ``corpus``, retrieved documents that are only named by their ids have its texts.
    """
    return read_outputs_file(path, format, corpus=corpus).outputs


def read_outputs_file(
    path: str | Path, format: str | None = None, *, corpus: str | Path | Corpus | None = None
) -> OutputsFile:
    """What ``load_outputs`` gives, with what is known of the file."""
    path = Path(path)
    with _open_corpus_join(corpus) as filling, gc_paused():
        outputs = iter_outputs(path, format)
        if filling is not None:
            outputs = (read._replace(output=filling.output(read.output)) for read in outputs)
        read = gathered_outputs(path, outputs, Problems())
    if not read.outputs:
        raise DataFileError(path, None, "there is no output in it")
    return read


@contextlib.contextmanager
def _open_corpus_join(corpus: str | Path | Corpus | None) -> Iterator[CorpusJoin | None]:
    """What puts the texts in, if there is a corpus; one that is opened here is closed again."""
    if corpus is None:
        yield None
        return
    opened = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    filling = CorpusJoin(opened)
    try:
        yield filling
    finally:
        if opened is not corpus:
            opened.close()
    filling.report(stacklevel=4)
