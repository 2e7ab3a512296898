"""Conversion between formats: record by record, with a count of the fields that the target cannot store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ..core.types import EvaluationSample, SystemOutputs, UnknownRanking
from ..errors import AueporaError, BadValueError, DataFileError
from .formats import FileHead, Format, Role, formats, get_format
from .join import Columns, OutputJoin, resolve_format
from .labels import with_nuggets
from .problems import ParsedOutput, Problems

RecordT = TypeVar("RecordT", EvaluationSample, SystemOutputs)


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A field that the target format cannot store, and how many records had it."""

    role: Role
    field: str
    count: int
    total: int
    format: str

    def __str__(self) -> str:
        return f"{self.field} in {self.count} of {self.total} {self.role} (the format '{self.format}' cannot hold it)"


@dataclass(slots=True)
class Conversion:
    """The result of a conversion: written files, counts and dropped fields."""

    written: dict[Role, Path] = field(default_factory=dict)
    counts: dict[Role, int] = field(default_factory=dict)
    dropped: list[DroppedField] = field(default_factory=list)
    outputs_not_written: int = 0
    """How many outputs of the source were not written, because no file for them was named."""
    unmatched_ids: list[str] = field(default_factory=list)
    """Ids of outputs that belong to no sample, where samples and outputs are written together."""


def convert_files(
    source: str | Path,
    target: str | Path,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    role: Role | None = None,
    outputs_in: str | Path | None = None,
    outputs_out: str | Path | None = None,
    nuggets: str | Path | None = None,
    columns: Columns | None = None,
) -> Conversion:
    """Write the content of ``source`` to ``target`` in another format; formats that are not named are detected.

    ``columns`` names the columns of the source by field, if it is a table.

    A format that keeps a sample and its output in one record takes its outputs from the source, if that has both, or
    from ``outputs_in``. Otherwise outputs go to ``outputs_out``, or are not written. Samples get the ``nuggets`` of
    their ids.
    """
    source, target = Path(source), Path(target)
    outputs_in = None if outputs_in is None else Path(outputs_in)
    outputs_out = None if outputs_out is None else Path(outputs_out)
    read = (source, outputs_in, None if nuggets is None else Path(nuggets))
    _refuse_to_overwrite([path for path in read if path], [p for p in (target, outputs_out) if p])
    reader, role = _detect_source(source, from_format, role, columns)
    writer = _choose_writer(target, to_format, role)
    done = Conversion()
    if role == "outputs":
        if outputs_in is not None or outputs_out is not None:
            raise BadValueError(f"{source} holds outputs; outputs to bring along go with samples")
        if nuggets is not None:
            raise BadValueError(f"{source} holds outputs; nuggets go with samples")
        _write_outputs(done, _read_outputs(source, reader), writer, target)
        return done
    samples = _read_samples(source, reader)
    if nuggets is not None:
        samples = with_nuggets(samples, nuggets)
    both = reader.one_file
    outputs: Iterator[ParsedOutput] | None = None
    if outputs_in is not None:
        outputs = _read_outputs(outputs_in, resolve_format(outputs_in, "outputs"))
    elif both:
        outputs = _read_outputs(source, reader, required=False)
    if outputs_out is not None:
        if outputs is None:
            raise BadValueError(f"{source} holds no outputs that could be written to {outputs_out}")
        possible = to_format if writer.write_outputs is not None else None
        outputs_writer = _choose_writer(outputs_out, possible, "outputs")
        _write_samples(done, samples, writer, target, None)
        _write_outputs(done, outputs, outputs_writer, outputs_out)
        return done
    if outputs_in is not None and writer.write_both is None:
        raise BadValueError(
            f"the format '{writer.name}' does not keep outputs beside their samples; name a file for them (--outputs)"
        )
    _write_samples(done, samples, writer, target, outputs)
    if both and writer.write_both is None:
        done.outputs_not_written = sum(1 for _ in _read_outputs(source, reader, required=False))
    return done


def _refuse_to_overwrite(inputs: list[Path], targets: list[Path]) -> None:
    """Raise if writing would overwrite an input or the other target."""
    for target in targets:
        for path in inputs:
            if _is_same_file(target, path) and not _is_device(path):
                raise BadValueError(f"{target} is the input {path}; write to another file")
            if target.is_dir() and target.resolve() in path.resolve().parents:
                raise BadValueError(f"the input {path} lies in {target}; write to another folder")
    if len(targets) > 1 and (targets[0].resolve() == targets[1].resolve()) and not _is_device(targets[0]):
        raise BadValueError(f"samples and outputs cannot both be written to {targets[0]}")


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:  # one of them does not exist: reading or writing will report it
        return False


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _detect_source(path: Path, name: str | None, role: Role | None, columns: Columns | None) -> tuple[Format, Role]:
    """Return the format and the role of a file: samples if its first record is one, else outputs."""
    if role is not None:
        return resolve_format(path, role, name, columns), role
    errors: list[AueporaError] = []
    roles: tuple[Role, Role] = ("samples", "outputs")
    for guess in roles:
        try:
            chosen = resolve_format(path, guess, name, columns)
            records: Iterator[Any] = (_read_samples if guess == "samples" else _read_outputs)(path, chosen)
            next(records, None)
        except AueporaError as error:
            errors.append(error)
        else:
            return chosen, guess
    first = errors[0]
    if isinstance(first, DataFileError) and str(first) != str(errors[1]):
        raise DataFileError(path, first.line, f"{first.problem} (read as samples; --role outputs reads it as outputs)")
    raise first


def _choose_writer(path: Path, name: str | None, role: Role) -> Format:
    """Return the format to write: the named one, or the one that the file name implies."""
    possible = ", ".join(known.name for known in formats().values() if _can_write(known, role))
    if name is not None:
        named = get_format(name)
        if _can_write(named, role):
            return named
        if role == "outputs" and named.write_both is not None:
            raise BadValueError(
                f"the format '{name}' keeps outputs beside their samples: convert the samples, and bring the outputs "
                "along (--outputs-in)"
            )
        raise BadValueError(f"the format '{name}' cannot be written for {role}; these can: {possible}")
    head = FileHead(path, "")
    for known_format in formats().values():
        if _can_write(known_format, role) and known_format.looks_like(head, role):
            return known_format
    raise BadValueError(f"cannot tell from its name in which format to write {path}; name one (--to): {possible}")


def _can_write(known_format: Format, role: Role) -> bool:
    if role == "outputs":
        return known_format.write_outputs is not None
    return known_format.write_samples is not None or known_format.write_both is not None


def _read_samples(path: Path, reader: Format) -> Iterator[EvaluationSample]:
    return (read.sample for read in _read_records(path, reader, "samples"))


def _read_outputs(path: Path, reader: Format, *, required: bool = True) -> Iterator[ParsedOutput]:
    for read in _read_records(path, reader, "outputs", required=required):
        yield read if read.has_retrieved else read._replace(output=replace(read.output, retrieved=UnknownRanking()))


def _read_records(path: Path, reader: Format, role: Role, *, required: bool = True) -> Iterator[Any]:
    read = None
    for read in reader.read(role, path, Problems()):
        yield read
    if read is None and required:
        raise DataFileError(path, None, f"there is no {role.removesuffix('s')} in it")


def _write_samples(
    done: Conversion,
    samples: Iterable[EvaluationSample],
    writer: Format,
    path: Path,
    outputs: Iterator[ParsedOutput] | None,
) -> None:
    """Write samples, with their outputs where the format keeps both."""
    sample_filter = _FieldFilter(EvaluationSample, "samples", writer)
    if writer.write_both is None or (outputs is None and writer.write_samples is not None):
        assert writer.write_samples is not None
        writer.write_samples(map(sample_filter.apply, samples), path)
    else:
        join = OutputJoin(outputs or ())
        output_filter = _FieldFilter(SystemOutputs, "outputs", writer)
        left_out: list[str] = []

        def pairs() -> Iterator[tuple[EvaluationSample, SystemOutputs | None]]:
            for sample in samples:
                found = join.take(sample.sample_id)
                output = None if found is None else found.output
                if output is not None:
                    kept = output_filter.apply(output)
                    failed = kept.error != output.error
                    # A failure without its error would look like an empty answer; without an output it stays a failure.
                    output = None if failed else kept
                    left_out.extend([sample.sample_id] if failed else [])
                yield sample_filter.apply(sample), output

        writer.write_both(pairs(), path)
        done.unmatched_ids = join.unmatched_ids()
        done.dropped += output_filter.dropped()
        if output_filter.total:
            done.written["outputs"], done.counts["outputs"] = path, output_filter.total - len(left_out)
    done.written["samples"], done.counts["samples"] = path, sample_filter.total
    done.dropped = sample_filter.dropped() + done.dropped


def _write_outputs(done: Conversion, outputs: Iterable[ParsedOutput], writer: Format, path: Path) -> None:
    assert writer.write_outputs is not None
    output_filter = _FieldFilter(SystemOutputs, "outputs", writer)
    writer.write_outputs(((read.sample_id, output_filter.apply(read.output)) for read in outputs), path)
    done.written["outputs"], done.counts["outputs"] = path, output_filter.total
    done.dropped += output_filter.dropped()


class _FieldFilter:
    """Removes the fields that a format cannot store, and counts them."""

    def __init__(self, kind: type[EvaluationSample] | type[SystemOutputs], role: Role, writer: Format) -> None:
        supported = writer.sample_fields if role == "samples" else writer.output_fields
        self._role, self._format, self.total = role, writer.name, 0
        self._empty = (
            {}
            if supported is None
            else {
                entry.name: _empty_value(entry) for entry in fields(kind) if entry.name not in {"sample_id", *supported}
            }
        )
        own = {entry.name for entry in fields(kind)}
        self._nested = [path for path in sorted(writer.nested_losses) if path.partition(".")[0] in own]
        self._counts = dict.fromkeys([*self._empty, *self._nested], 0)
        self._supports_all = supported is None

    def apply(self, record: RecordT) -> RecordT:
        """Return the record without the fields that the format cannot store."""
        self.total += 1
        removed: dict[str, Any] = {name: empty for name, empty in self._empty.items() if getattr(record, name) != empty}
        for name in removed:
            self._counts[name] += not _is_redundant(record, name, removed)
        for path in self._nested:
            self._counts[path] += _has_value(record, path.split("."))
        if isinstance(getattr(record, "retrieved", None), UnknownRanking) and not self._supports_all:
            removed["retrieved"] = []  # only some formats can store an unknown ranking
        return replace(record, **removed) if removed else record

    def dropped(self) -> list[DroppedField]:
        """Return the dropped fields, in the order of the fields."""
        return [
            DroppedField(self._role, name, count, self.total, self._format)
            for name, count in self._counts.items()
            if count
        ]


def _has_value(value: Any, path: list[str]) -> bool:
    """Whether there is a non-empty value at a path of fields; lists on the way are searched."""
    if isinstance(value, list):
        return any(_has_value(inner, path) for inner in value)
    if not path or value is None:
        return value not in (None, "", {}, [])
    return _has_value(getattr(value, path[0], None), path[1:])


def _empty_value(declared: Field[Any]) -> Any:
    """Return the empty value of a field."""
    if declared.default is not MISSING:
        return declared.default
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return "" if declared.type == "str" else []


def _is_redundant(record: EvaluationSample | SystemOutputs, name: str, removed: dict[str, Any]) -> bool:
    """Whether a field repeats a field that is kept: one reference answer given under both names."""
    if name != "reference_answers" or not isinstance(record, EvaluationSample) or record.reference_answer is None:
        return False
    return "reference_answer" not in removed and record.references == [record.reference_answer.text]
