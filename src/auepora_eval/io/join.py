"""Joining of samples and outputs by id, streamed or in memory, and loading of files of any format."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..core.conventions import Conventions
from ..core.dataset import InMemoryDataset, LazyDataset
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError, DuplicateIdError
from ..runtime.files import is_compressed, plain_stem
from ..runtime.processes import gc_paused
from .codec import ID_DECODER, LineError, decode_output_line
from .formats import TABLE, Format, Role, get_format, guess_format, read_file_head
from .jsonl import OutputsFile, gathered_outputs
from .problems import MISSING_RETRIEVED, ParsedOutput, ParsedSample, Problems, name_ids

if TYPE_CHECKING:
    from .corpus import Corpus, CorpusJoin, LinePosition
    from .labels import NuggetsById


@dataclass(frozen=True, slots=True)
class AlignedOutputs:
    """One output, or ``None``, for each sample; and the unmatched ids."""

    outputs: list[SystemOutputs | None]
    missing: list[str]
    """Ids of samples without an output."""
    unknown: list[str]
    """Ids of outputs that no sample has."""


def align_outputs(samples: Iterable[EvaluationSample], outputs_by_id: Mapping[str, SystemOutputs]) -> AlignedOutputs:
    """Return the outputs in sample order. It is an error if no id matches: then the files do not belong together."""
    join = OutputJoin(ParsedOutput(None, *item) for item in outputs_by_id.items())
    outputs = join.outputs_of(samples)
    unknown = join.unmatched_ids()
    if unknown:
        require_common_id(join.total, join.missing, unknown)
    return AlignedOutputs(outputs, join.missing, unknown)


def require_common_id(total: int, missing: Sequence[str], unknown: Sequence[str]) -> None:
    """Raise if no sample has an output although there are some; the message shows an id of each."""
    if total and len(missing) == total:
        raise BadValueError(
            f"no sample and output share an id: the first sample is {missing[0]!r}, "
            f"the first output {unknown[0]!r}; do the two belong together?"
        )


def unmatched_warnings(
    missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions
) -> list[str]:
    """Return warnings about samples without an output, with their outcome, and outputs without a sample."""
    warnings = []
    if missing:
        is_single = len(missing) == 1
        outcome = {
            "fail": "counts as a failure" if is_single else "count as failures",
            "skip": "is skipped" if is_single else "are skipped",
            "zero": "counts as nothing returned" if is_single else "count as nothing returned",
        }[conventions.missing]
        has = "has" if is_single else "have"
        warnings.append(f"{len(missing)} of {total} samples {has} no output and {outcome}: {name_ids(missing)}")
    return [*warnings, unknown_ids_message(unknown)] if unknown else warnings


def unknown_ids_message(ids: Sequence[str]) -> str:
    """Return a message about the outputs with these ids, which no sample has."""
    what = (
        "1 output belongs to no sample and is" if len(ids) == 1 else f"{len(ids)} outputs belong to no sample and are"
    )
    return f"{what} left out: {name_ids(ids)}"


# --- streams of samples and outputs from files, pair by pair, with constant memory -----------------------------------

Pair = tuple[EvaluationSample, SystemOutputs | None]
_CHUNK_SIZE = 1024
"""How many pairs are read while the garbage collector is paused."""


class OutputIndex:
    """The outputs of a JSONL file by sample id, read on demand: only ids and offsets are in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        from .corpus import iter_placed_lines  # other joins need no corpus

        self._positions: dict[str, LinePosition] = {}
        for position, line in iter_placed_lines(path):
            self._add_line(line, position)
        self._file: IO[bytes] = path.open("rb")

    def _add_line(self, line: bytes, position: LinePosition) -> None:
        try:
            sample_id = ID_DECODER.decode(line).sample_id
        except (ValueError, RecursionError):
            # Decoding the whole line gives a better message.
            sample_id = self._decoded(line, position.line).sample_id
        first = self._positions.setdefault(sample_id, position)
        if first is not position:
            message = f"sample_id {sample_id!r} is already on line {first.line}; each id may come once"
            raise DuplicateIdError(f"{self._path}:{position.line}: {message}", path=self._path, line=position.line)

    def ids_from(self, line: int) -> Iterator[str]:
        """Yield the ids on this line and later ones."""
        return (sample_id for sample_id, position in self._positions.items() if position.line >= line)

    def read(self, sample_id: str) -> ParsedOutput | None:
        """Read the output for a sample; ``None`` if there is none."""
        position = self._positions.get(sample_id)
        if position is None:
            return None
        self._file.seek(position.offset)
        return self._decoded(self._file.readline(), position.line)

    def _decoded(self, line: bytes, number: int) -> ParsedOutput:
        try:
            return ParsedOutput(number, *decode_output_line(line))
        except LineError as error:
            raise DataFileError(self._path, number, str(error)) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class OutputJoin:
    """Matches outputs with samples by id.

    Outputs in the order of the samples are streamed. From the first that is out of order, they are looked up: in an
    index of the file if ``open_index`` gives one, else in memory.
    """

    def __init__(
        self,
        outputs: Iterable[ParsedOutput],
        open_index: Callable[[], OutputIndex | None] | None = None,
        path: Path | None = None,
    ) -> None:
        """``path`` is the file of the outputs, for errors."""
        self._outputs = iter(outputs)
        self._upcoming = next(self._outputs, None)
        self._open_index, self._path = open_index, path
        self._index: OutputIndex | None = None
        self._taken: set[str] = set()
        self._first_line = 1
        self._in_memory: dict[str, ParsedOutput] | None = None
        self.total = 0
        """Number of samples so far."""
        self.missing: list[str] = []
        """Ids of samples without an output."""

    def take(self, sample_id: str) -> ParsedOutput | None:
        """The output for the next sample, if there is one."""
        self.total += 1
        if self._upcoming is not None and self._upcoming.sample_id == sample_id:
            found: ParsedOutput | None = self._upcoming
            self._upcoming = next(self._outputs, None)
        else:
            found = self._look_up(sample_id)
        if found is None:
            self.missing.append(sample_id)
        return found

    def outputs_of(self, samples: Iterable[EvaluationSample]) -> list[SystemOutputs | None]:
        """The outputs for the next samples, ``None`` for one without."""
        found: list[SystemOutputs | None] = []
        for sample in samples:
            read = self.take(sample.sample_id)
            found.append(None if read is None else read.output)
        return found

    def _look_up(self, sample_id: str) -> ParsedOutput | None:
        if self._upcoming is not None:
            self._start_lookup(self._upcoming)
            self._upcoming = None
        if self._index is not None:
            self._taken.add(sample_id)
            return self._index.read(sample_id)
        return None if self._in_memory is None else self._in_memory.pop(sample_id, None)

    def _start_lookup(self, upcoming: ParsedOutput) -> None:
        self._index = None if self._open_index is None else self._open_index()
        if self._index is not None:
            self._first_line = upcoming.line or 1  # lines before it are matched
            return
        self._in_memory = {}
        for read in itertools.chain([upcoming], self._outputs):
            if self._in_memory.setdefault(read.sample_id, read) is not read:
                message = f"{self._path}: sample_id {read.sample_id!r} occurs twice; each id may come once"
                raise DuplicateIdError(message, path=self._path, line=read.line)

    def unmatched_ids(self) -> list[str]:
        """Ids of the outputs that no sample has; known after the last sample."""
        if self._index is not None:
            return [sample_id for sample_id in self._index.ids_from(self._first_line) if sample_id not in self._taken]
        if self._in_memory is not None:
            return list(self._in_memory)
        upcoming = [] if self._upcoming is None else [self._upcoming]
        return [read.sample_id for read in itertools.chain(upcoming, self._outputs)]

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()


def require_same_rankings(path: str | Path, read: ParsedOutput, *, answers_only: bool) -> None:
    """Raise unless an output has a ranking as the others do; a failed one may lack it."""
    if read.has_retrieved is answers_only and read.output.error is None:
        message = MISSING_RETRIEVED
        if read.has_retrieved:
            message = "field 'retrieved' is there, and not on the lines before: write it on all of them"
        where = "" if read.record is None else f"record {read.record}: "
        raise DataFileError(path, read.line, f"{where}{message}")


class PairStream:
    """The samples of one file, each with its output from another (or the same), in the order of the samples.

    Outputs that are out of order are looked up by offset in a plain JSONL file, in memory otherwise. The unmatched ids
    are known after the last sample.
    """

    def __init__(
        self,
        samples: tuple[Path, Format],
        outputs: tuple[Path, Format],
        *,
        keep_ids: bool = True,
        corpus_join: CorpusJoin | None = None,
        nuggets: NuggetsById | None = None,
    ) -> None:
        """``keep_ids``: keep all ids in memory, so that a repeated one is found at once and not at the end.

        ``corpus_join`` adds the texts of a corpus to documents without text; ``nuggets`` adds nuggets to samples.
        """
        self.corpus_join, self._nuggets = corpus_join, nuggets
        self.samples_path, sample_format = samples
        self.outputs_path, self._output_format = outputs
        self._keep_ids = keep_ids
        self._read_samples: Callable[[Problems], Iterator[ParsedSample]] = partial(
            sample_format.read, "samples", self.samples_path
        )
        self._read_outputs: Callable[[Problems], Iterator[ParsedOutput]] = partial(
            self._output_format.read, "outputs", self.outputs_path
        )
        self._answers_only: bool | None = None
        self.total = 0
        self.missing: list[str] = []
        """Ids of samples without an output."""
        self.unknown: list[str] = []
        """Ids of outputs that no sample has."""

    @property
    def answers_only(self) -> bool:
        """Whether the outputs have no rankings: the system answers without retrieval.

        The first output that did not fail decides.
        """
        if self._answers_only is None:
            self._answers_only = False
            for read in self._outputs():
                if read.output.error is None:
                    self._answers_only = not read.has_retrieved
                    break
        return self._answers_only

    def _outputs(self) -> Iterator[ParsedOutput]:
        # In order, a repeated id matches no sample; out of order, the lookup finds it.
        return self._read_outputs(Problems(check_unique_ids=False))

    def __iter__(self) -> Iterator[Pair]:
        self.total, self.missing, self.unknown = 0, [], []
        pairs = self._pairs()
        while True:
            with gc_paused():
                chunk = list(itertools.islice(pairs, _CHUNK_SIZE))
            if not chunk:
                break
            yield from chunk if self.corpus_join is None and self._nuggets is None else map(self._complete, chunk)
        if not self.total:
            raise DataFileError(self.samples_path, None, "there is no sample in it")
        if len(self.missing) == self.total and not self.unknown:
            raise DataFileError(self.outputs_path, None, "there is no output in it")
        require_common_id(self.total, self.missing, self.unknown)

    def _complete(self, pair: Pair) -> Pair:
        sample, output = pair
        if self._nuggets is not None:
            sample = self._nuggets.attach(sample)
        if self.corpus_join is None:
            return sample, output
        return self.corpus_join.fill_sample(sample), None if output is None else self.corpus_join.fill_output(output)

    def _pairs(self) -> Iterator[Pair]:
        samples = self._read_samples(Problems(check_unique_ids=self._keep_ids))
        hashes = _DuplicateIdDetector()
        with contextlib.closing(OutputJoin(self._outputs(), self._open_index, self.outputs_path)) as join:
            self.missing = join.missing
            for _, sample, _ in samples:
                if not self._keep_ids:
                    hashes.add(sample.sample_id)
                found = join.take(sample.sample_id)
                self.total = join.total
                if found is not None:
                    if found.question is not None:
                        from .records import require_same_question

                        require_same_question(self.outputs_path, found, sample.query)
                    require_same_rankings(self.outputs_path, found, answers_only=self.answers_only)
                yield sample, None if found is None else found.output
            self.unknown = join.unmatched_ids()
        if hashes.any_equal():
            # Different ids may have one hash: only reading them again decides.
            deque(self._read_samples(Problems()), maxlen=0)
        if self.unknown:
            # An unmatched output may be a repeated one, which is another error.
            deque(self._read_outputs(Problems()), maxlen=0)

    def _open_index(self) -> OutputIndex | None:
        plain = self._output_format.name == "jsonl" and not is_compressed(self.outputs_path)
        return OutputIndex(self.outputs_path) if plain else None


class _DuplicateIdDetector:
    """Detects possible duplicate ids at the end, with eight bytes per id."""

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.int64]] = []
        self._recent: list[int] = []

    def add(self, sample_id: str) -> None:
        self._recent.append(hash(sample_id))
        if len(self._recent) == _CHUNK_SIZE:
            self._parts.append(np.array(self._recent, dtype=np.int64))
            self._recent = []

    def any_equal(self) -> bool:
        hashes = np.sort(np.concatenate([*self._parts, np.array(self._recent, dtype=np.int64)]))
        return bool((hashes[1:] == hashes[:-1]).any())


def count_lines(path: Path) -> int | None:
    """Count the lines of a plain file, for a progress bar; ``None`` if the file is compressed."""
    if is_compressed(path) or not path.is_file():
        return None
    count = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
    return count


# --- loading of files of any format, for the CLI, the client and plans -----------------------------------------------


Columns = Mapping[str, str]
"""The columns of a table by field, such as ``{"query": "Question", "response": "Answer"}``."""


def resolve_format(path: Path, role: Role, name: str | None = None, columns: Columns | None = None) -> Format:
    """Return the format of that name, or the detected one; it must support reading this role.

    With ``columns`` the file is a table, and ``name`` may say of which kind: ``csv``, ``excel``, ...
    """
    if columns is not None:
        from .records import table_format

        return table_format(columns, name or TABLE)
    if name is None:
        return guess_format(path, role)
    chosen = get_format(name)
    if not chosen.reads(role):
        raise BadValueError(f"the format '{name}' has no {role}")
    explained = partial(_explain_first_error, chosen, role)
    return replace(chosen, read_samples=explained) if role == "samples" else replace(chosen, read_outputs=explained)


def _explain_first_error(chosen: Format, role: Role, path: Path, problems: Problems) -> Iterator[Any]:
    """Read a file in a format that a user named; if nothing can be read, the error says what the file is instead."""
    try:
        records = chosen.read(role, path, problems)
        first = next(records, None)
    except DataFileError as error:
        hint = _other_format_hint(path, role, chosen)
        raise (DataFileError(error.path, error.line, f"{error.problem}{hint}") if hint else error) from error
    if first is not None:
        yield first
        yield from records
    elif problems.found:
        problems.found[0] = replace(
            problems.found[0], message=f"{problems.found[0].message}{_other_format_hint(path, role, chosen)}"
        )


def _other_format_hint(path: Path, role: Role, chosen: Format) -> str:
    """Return a clause about the format that a file probably has, if it is another."""
    try:
        head = read_file_head(path)
    except DataFileError:  # it cannot be read in any format
        return ""
    try:
        found = guess_format(path, role).name
    except DataFileError:
        found = TABLE
    if found == chosen.name or (found == "jsonl" and "sample_id" not in head.keys):
        return ""
    if found == TABLE:
        return f"; {head.describe()}" if head.columns and head.kind != "json" and chosen.name != TABLE else ""
    return f"; the file looks like {found} ({get_format(found).title}): use --format {found}"


def iter_samples(
    path: str | Path, format: str | None = None, problems: Problems | None = None, *, columns: Columns | None = None
) -> Iterator[ParsedSample]:
    """Yield the samples of a file with their lines."""
    return resolve_format(Path(path), "samples", format, columns).read("samples", Path(path), problems or Problems())


def iter_outputs(
    path: str | Path, format: str | None = None, problems: Problems | None = None, *, columns: Columns | None = None
) -> Iterator[ParsedOutput]:
    """Yield the outputs of a file with their lines."""
    return resolve_format(Path(path), "outputs", format, columns).read("outputs", Path(path), problems or Problems())


def load_dataset(
    path: str | Path,
    format: str | None = None,
    *,
    name: str | None = None,
    corpus: str | Path | Corpus | None = None,
    nuggets: str | Path | None = None,
    columns: Columns | None = None,
) -> InMemoryDataset:
    """Load the samples of a file, in its order. Without ``format`` it is detected.

    ``columns`` names the columns of a table by field: ``{"query": "Question", "reference": "Expected"}``.

    With a ``corpus``, documents without text get its texts; with a file of ``nuggets``, samples get those of their
    ids.

    Args:
        path: A file or folder.
        name: Of the dataset; by default that of the file.

    Returns:
        The samples, as a sequence with a name.

    Example:
        >>> dataset = load_dataset("data.jsonl")
        >>> dataset.name, len(dataset)
        ('data', 2)
    """
    path = Path(path)
    with _open_corpus_join(corpus) as corpus_join, gc_paused():
        parsed = (read.sample for read in iter_samples(path, format, columns=columns))
        samples: list[EvaluationSample] = list(parsed if corpus_join is None else map(corpus_join.fill_sample, parsed))
    if not samples:
        raise DataFileError(path, None, "there is no sample in it")
    if nuggets is not None:
        from .labels import with_nuggets

        samples = list(with_nuggets(samples, nuggets))
    return InMemoryDataset(plain_stem(path) if name is None else name, samples)


def open_dataset(
    path: str | Path, format: str | None = None, *, name: str | None = None, columns: Columns | None = None
) -> LazyDataset:
    """Open the samples of a file lazily: they are read on each iteration and never all in memory."""
    path = Path(path)
    return dataset_of(path, resolve_format(path, "samples", format, columns), name=name)


def dataset_of(path: Path, chosen: Format, *, name: str | None = None) -> LazyDataset:
    """The samples of a file in a known format, read on each iteration."""

    def read_again() -> Iterator[EvaluationSample]:
        return (read.sample for read in chosen.read("samples", path, Problems()))

    return LazyDataset(plain_stem(path) if name is None else name, read_again)


def load_outputs(
    path: str | Path,
    format: str | None = None,
    *,
    corpus: str | Path | Corpus | None = None,
    columns: Columns | None = None,
) -> dict[str, SystemOutputs]:
    """Load the outputs of a file by sample id, in its order. Without ``format`` it is detected.

    ``columns`` names the columns of a table by field: ``{"response": "Answer", "contexts": "Contexts"}``. With a
    ``corpus``, retrieved documents without text get its texts.
    """
    return read_outputs_file(path, format, corpus=corpus, columns=columns).outputs


def read_outputs_file(
    path: str | Path,
    format: str | None = None,
    *,
    corpus: str | Path | Corpus | None = None,
    columns: Columns | None = None,
) -> OutputsFile:
    """Like ``load_outputs``, with ``answers_only``."""
    path = Path(path)
    with _open_corpus_join(corpus) as corpus_join, gc_paused():
        outputs = iter_outputs(path, format, columns=columns)
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
    from .corpus import Corpus, CorpusJoin

    opened = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    corpus_join = CorpusJoin(opened)
    try:
        yield corpus_join
    finally:
        if opened is not corpus:
            opened.close()
    corpus_join.report(stacklevel=4)
