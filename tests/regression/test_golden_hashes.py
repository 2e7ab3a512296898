"""The golden files are those that were committed, and stay small."""

from helpers.golden import GOLDEN, file_hashes, recorded_hashes

LIMIT = 5_000_000  # bytes, all files together


def test_hashes() -> None:
    recorded, actual = recorded_hashes(), file_hashes()
    changed = sorted(name for name in recorded.keys() | actual.keys() if recorded.get(name) != actual.get(name))
    assert changed == [], "golden files differ from SHA256SUMS; see 'Golden files' in CONTRIBUTING.md"


def test_size() -> None:
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) < LIMIT
