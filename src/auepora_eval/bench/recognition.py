"""Which benchmark a file belongs to, by its keys and its name; what a file lacks that is given for another one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ..errors import BadValueError, DataFileError, MissingDependencyError
from ..io.formats import read_file_head
from ..io.tables import list_columns
from .entries import Benchmark, Part, all_benchmarks
from .reading import required_keys

DATA_VARIABLE = "AUEPORA_BENCH_DATA"
"""The environment variable with the folder in which each benchmark has a folder of its name."""
_SIMILAR = 0.5
"""The proportion of keys that a file shares with one of a benchmark, from which it is named."""


class Found(NamedTuple):
    """A benchmark that a file resembles, and its split."""

    benchmark: Benchmark
    split: str
    shared: int
    """How many of its keys the file has."""
    missing: list[str]
    """The keys that the file lacks."""
    is_named: bool
    """Whether the file has one of its names."""

    @property
    def title(self) -> str:
        """How the command names it."""
        return title_of(self.benchmark, self.split)

    @property
    def rank(self) -> tuple[int, bool, bool]:
        """The higher, the more the file resembles it."""
        return self.shared, not self.missing, self.is_named


def title_of(benchmark: Benchmark, split: str) -> str:
    """How the command names a benchmark with its split."""
    return f"{benchmark.name} --split {split}" if split else benchmark.name


def file_keys(path: Path) -> frozenset[str]:
    """The keys of the first record of a file, or of the file itself; none if it cannot be read."""
    try:
        head = read_file_head(path)
    except (DataFileError, MissingDependencyError):
        return frozenset()
    return head.keys | frozenset(head.columns)


def recognise(path: Path) -> list[Found]:
    """The benchmarks that a file resembles, the most similar first; of the same keys, one with its name."""
    keys = file_keys(path)
    found: list[Found] = []
    for benchmark in all_benchmarks():
        for split, part in benchmark.parts.items():
            wanted = required_keys(part)
            shared = len(wanted & keys)
            if shared and shared >= _SIMILAR * len(wanted):
                found.append(Found(benchmark, split, shared, sorted(wanted - keys), _is_named(part, path)))
    return sorted(found, key=attrgetter("rank"), reverse=True)


def _is_named(part: Part, path: Path) -> bool:
    plain = path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".bz2")
    return any(fnmatch(plain, pattern) for pattern in part.files)


def find_data(benchmark: Benchmark, split: str | None, given: str | None) -> tuple[Path, str]:
    """The file of a benchmark and its split: ``given`` itself, or a file of its name in that folder or a usual one."""
    data = Path(given) if given is not None else None
    if data is not None and not data.exists():
        raise DataFileError(data, None, f"no such file; {_obtain(benchmark)}")
    if data is not None and data.is_file():
        return _data_of(benchmark, data), _split_of(benchmark, split, data)
    root = os.environ.get(DATA_VARIABLE)
    usual = [Path(root) / benchmark.name, Path()] if root else [Path()]
    folders = usual if data is None else [data]
    for folder in folders:
        for name, path in _named_files(benchmark, split, folder):
            return _data_of(benchmark, path), name
    if data is None:
        raise BadValueError(f"the files of {benchmark.name} are not here; give --data PATH. {_obtain(benchmark)}")
    raise DataFileError(data, None, _wrong_folder(benchmark, split, data))


def _data_of(benchmark: Benchmark, path: Path) -> Path:
    """A file of a benchmark; of one that is a folder the folder."""
    is_folder = any(part.format == "beir" for part in benchmark.parts.values())
    return path.parent if is_folder and _is_named(benchmark.part(None), path) else path


def _split_of(benchmark: Benchmark, split: str | None, path: Path) -> str:
    """The split that was asked for; else the one whose files have this name, or these keys."""
    names = list(benchmark.parts)
    if split is not None:
        return next(iter(benchmark.chosen(split)))
    fitting = [found.split for found in recognise(path) if found.benchmark is benchmark]
    named = [name for name in names if _is_named(benchmark.parts[name], path)]
    return (fitting or named or names)[0]


def _named_files(benchmark: Benchmark, split: str | None, folder: Path) -> Iterator[tuple[str, Path]]:
    """The files in a folder, or one folder below, that have the name and the keys of a part."""
    for name, part in benchmark.chosen(split).items():
        for pattern in part.files:
            for path in sorted([*folder.glob(pattern), *folder.glob(f"*/{pattern}")]):
                if required_keys(part) <= file_keys(path):
                    yield name, path


def _wrong_folder(benchmark: Benchmark, split: str | None, folder: Path) -> str:
    patterns = chain.from_iterable(part.files for part in benchmark.chosen(split).values())
    listed = list_columns(sorted(path.name for path in folder.iterdir()))
    others: list[str] = []
    for path in sorted(folder.iterdir()):
        found = recognise(path) if path.is_file() else []
        if found and not found[0].missing:
            others.append(f"{path.name} looks like {found[0].title}")
    hint = f"; {'; '.join(others[:3])}" if others else ""
    return (
        f"no file of {benchmark.name} is in this folder: expected {' or '.join(dict.fromkeys(patterns))}; it has "
        f"{listed or 'nothing'}{hint}"
    )


def require_shape(benchmark: Benchmark, split: str, path: Path) -> None:
    """Raise if a file lacks keys of its part; the message names the expected shape, and where the file belongs."""
    part = benchmark.parts[split]
    wanted = required_keys(part)
    keys = file_keys(path)
    missing = sorted(wanted - keys)
    best = next((found for found in recognise(path) if not found.missing), None)
    if best is not None and best.benchmark is not benchmark and best.shared <= len(wanted & keys):
        best = None
    is_other = best is not None and best.benchmark is not benchmark and part.format != "jsonl"
    if not missing and not is_other:
        return
    place = ""
    if best is not None:
        place = f"; the file looks like {best.title}: auepora bench run {best.title} --data {path}"
    elif wanted & keys:
        place = "; it may be another version of the file"
    has = list_columns(sorted(keys)) if keys else "no keys that can be read"
    lacks = f"lacks {', '.join(map(repr, missing))}, and " if missing else ""
    raise DataFileError(
        path,
        None,
        f"this is no file of {title_of(benchmark, split)}: it {lacks}has {has}. Expected: {part.shape}{place}",
    )


def _obtain(benchmark: Benchmark) -> str:
    return f"Get them yourself: {benchmark.heading.obtain}"


def describe_file(path: Path) -> str:
    """To which benchmark a file belongs, with its expected shape; an error if to none."""
    best = next(iter(recognise(path)), None)
    if best is None:
        raise DataFileError(path, None, "this is not recognised as a file of a benchmark; bench list shows all")
    shape = best.benchmark.parts[best.split].shape
    if best.missing:
        missing = ", ".join(map(repr, best.missing))
        raise DataFileError(path, None, f"it resembles {best.title}, but lacks {missing}. Expected: {shape}")
    run = f"auepora bench run {best.title} --data {path} --outputs FILE"
    return f"{path} looks like {best.title}. Expected: {shape}\n  {run}"
