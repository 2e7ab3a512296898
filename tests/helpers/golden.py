"""Compare values with the files recorded in ``tests/golden``.

A golden file records what the program did when the file was written. A refactoring must reproduce it. To record a new file, or to record
again what was changed on purpose, run the test with ``AUEPORA_WRITE_GOLDEN=1``, and give the reason for each changed key in the commit.
With ``AUEPORA_WRITE_GOLDEN=wording`` only the wording files are written, those listed in ``tests/helpers/wording_files.txt``; all others are compared as
usual. ``make golden`` does that.
"""

import difflib
import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
WORDING_FILES = frozenset(Path(__file__).with_name("wording_files.txt").read_text(encoding="utf-8").split())
"""Paths below ``tests/golden`` of the files that may change together with the program."""
SHOWN = 20  # differences listed in a failure
TOLERANCE = 1e-12  # relative; vectorised log and exp may differ in the last bits between processors


def write_golden() -> bool:
    """Whether all golden files are written instead of compared; never in CI."""
    return os.environ.get("AUEPORA_WRITE_GOLDEN") == "1" and os.environ.get("CI") != "true"


def _is_written(name: str) -> bool:
    """Whether the golden file ``name`` is written instead of compared."""
    if os.environ.get("AUEPORA_WRITE_GOLDEN") == "wording" and os.environ.get("CI") != "true":
        return name in WORDING_FILES
    return write_golden()


def check_golden(name: str, value: Any, *, rel: float = TOLERANCE) -> None:
    """Fail if ``value`` differs from the JSON file ``name``: keys, their order, types, and numbers beyond ``rel``."""
    actual = json.loads(json.dumps(_plain(value), ensure_ascii=True))
    if _is_written(name):
        _write(name, json.dumps(actual, ensure_ascii=True, indent=1) + "\n")
        return
    recorded = json.loads(_read(name))
    _report(name, list(differences(recorded, actual, rel=rel)))


def check_golden_text(name: str, text: str) -> None:
    """Fail if ``text`` differs from the text file ``name``."""
    if _is_written(name):
        _write(name, text)
        return
    recorded = _read(name)
    if recorded != text:
        lines = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "actual", lineterm="", n=1)
        _report(name, list(lines))


def differences(recorded: Any, actual: Any, path: str = "", *, rel: float = TOLERANCE) -> Iterator[str]:
    """One line per difference between two JSON values, each with the path of its key."""
    if isinstance(recorded, dict) and isinstance(actual, dict):
        for key in recorded:
            if key in actual:
                yield from differences(recorded[key], actual[key], f"{path}.{key}", rel=rel)
            else:
                yield f"{path}.{key}: missing"
        yield from (f"{path}.{key}: new" for key in actual if key not in recorded)
        if list(recorded) != list(actual) and recorded.keys() == actual.keys():
            yield f"{path}: keys in another order: {list(actual)}, recorded {list(recorded)}"
    elif isinstance(recorded, list) and isinstance(actual, list):
        if len(recorded) != len(actual):
            yield f"{path}: {len(actual)} items, recorded {len(recorded)}"
        for index, (old, new) in enumerate(zip(recorded, actual, strict=False)):
            yield from differences(old, new, f"{path}[{index}]", rel=rel)
    elif isinstance(recorded, float) and isinstance(actual, float):
        if not math.isclose(recorded, actual, rel_tol=rel, abs_tol=rel):
            yield f"{path}: {actual!r}, recorded {recorded!r}"
    elif type(recorded) is not type(actual) or recorded != actual:
        yield f"{path}: {actual!r}, recorded {recorded!r}"


def key_paths(value: Any, path: str = "") -> list[str]:
    """Every key path of a JSON value with the type found there; items of a list share one path, ``[]``."""
    found: dict[str, None] = {}
    for line in _key_paths(value, path):
        found.setdefault(line)
    return list(found)


def _key_paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{path} object"
        for key, inner in value.items():
            yield from _key_paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path} array"
        for inner in value:
            yield from _key_paths(inner, f"{path}[]")
    else:
        yield f"{path} {'null' if value is None else type(value).__name__}"


def file_hashes() -> dict[str, str]:
    """SHA-256 of every golden file, by its path below ``tests/golden``."""
    files = sorted(path for path in GOLDEN.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    return {path.relative_to(GOLDEN).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _plain(value: Any) -> Any:
    """Numbers that JSON lacks become strings, tuples lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _read(name: str) -> str:
    path = GOLDEN / name
    if not path.exists():
        pytest.fail(f"tests/golden/{name} does not exist; record it with AUEPORA_WRITE_GOLDEN=1")
    return path.read_text(encoding="utf-8")


def _write(name: str, text: str) -> None:
    path = GOLDEN / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _report(name: str, lines: list[str]) -> None:
    if lines:
        more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        pytest.fail("\n".join([f"differs from tests/golden/{name}:", *lines[:SHOWN], *more]), pytrace=False)


def recorded_hashes() -> dict[str, str]:
    """The hashes that ``SHA256SUMS`` has."""
    recorded = {}
    for line in (GOLDEN / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        recorded[name] = digest
    return recorded


def write_hashes(*, wording_only: bool = False) -> None:
    """Write ``SHA256SUMS``, in the form that ``sha256sum --check`` reads; or only the hashes of the wording files in it."""
    hashes = file_hashes()
    if wording_only:
        wording = {name: digest for name, digest in hashes.items() if name in WORDING_FILES}
        hashes = recorded_hashes() | wording
    lines = [f"{hashes[name]}  {name}\n" for name in sorted(hashes, key=Path)]
    (GOLDEN / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write_hashes(wording_only=sys.argv[1:] == ["wording"])
