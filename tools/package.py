"""Build the sdist and the wheel, check both, and try the wheel in an empty environment:  python -m tools.package."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from email.message import Message
from pathlib import Path

from packaging.metadata import Metadata

from tools.installs import find_pythons, try_pythons

ROOT = Path(__file__).parent.parent
PACKAGE = "src/auepora_eval/"
TOP_LEVEL = (
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md",
    "pyproject.toml",
)  # fmt: skip
"""Files that the sdist must contain, beside the package."""
DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
"""Files of the wheel beside those of the package."""


def wheel_problems(names: Collection[str], tracked: Collection[str]) -> list[str]:
    """What is missing in a wheel, or should not be in it: it contains the package and its metadata."""
    package = {name.removeprefix("src/") for name in tracked if name.startswith(PACKAGE)}
    expected = package | {name for name in names if name.partition(".dist-info/")[2] in DIST_INFO}
    return _differences("wheel", expected - set(names), set(names) - expected)


def sdist_problems(names: Collection[str], tracked: Collection[str]) -> list[str]:
    """What is missing in an sdist, or should not be in it: it contains nothing that is not under version control."""
    inner = {name.partition("/")[2] for name in names}
    required = {name for name in tracked if name.startswith(PACKAGE)} | set(TOP_LEVEL)
    return _differences("sdist", required - inner, inner - set(tracked) - {"PKG-INFO"})


def _differences(what: str, missing: Collection[str], unexpected: Collection[str]) -> list[str]:
    lines = [f"{what}: {name} is missing" for name in sorted(missing)]
    return lines + [f"{what}: {name} does not belong there" for name in sorted(unexpected)]


def metadata_problems(data: bytes) -> list[str]:
    """Errors in the metadata of a distribution; the long description must be there, as Markdown."""
    try:
        metadata = Metadata.from_email(data, validate=True)
    except ExceptionGroup as group:
        return [f"metadata: {error}" for error in group.exceptions]
    content_type = Message()
    content_type["content-type"] = metadata.description_content_type or ""
    if content_type.get_content_type() != "text/markdown" or not (metadata.description or "").strip():
        return ["metadata: there is no long description in Markdown"]
    return []


def tracked_files() -> list[str]:
    """The files under version control, and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 -- git of the user
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def check_distributions(sdist: Path, wheel: Path) -> list[str]:
    """Every problem of the two files."""
    tracked = tracked_files()
    with tarfile.open(sdist) as archive:
        names = [one.name for one in archive.getmembers() if one.isfile()]
        info = archive.extractfile(next(name for name in names if name.endswith("/PKG-INFO") and name.count("/") == 1))
        assert info is not None
        found = sdist_problems(names, tracked) + metadata_problems(info.read())
    with zipfile.ZipFile(wheel) as archive_of_wheel:
        names = archive_of_wheel.namelist()
        found += wheel_problems(names, tracked)
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        return found + metadata_problems(archive_of_wheel.read(metadata))


def main() -> None:
    """Build, check, install, run; exit with 1 if the contents are wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Without isolation: the build backend is one of the development tools, and nothing has to be downloaded.
        subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", name, str(ROOT)], check=True)
        (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
        problems = check_distributions(sdist, wheel)
        print(*problems, sep="\n", end="\n" if problems else "")
        if problems:
            sys.exit(1)
        print(f"{sdist.name} ({sdist.stat().st_size:,} bytes) and {wheel.name} ({wheel.stat().st_size:,} bytes): fine")
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)], check=True)
        too_large = try_pythons(find_pythons(with_pyenv=False), wheel)
        if too_large:
            sys.exit("\n".join(too_large))


if __name__ == "__main__":
    main()
