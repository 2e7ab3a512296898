"""Install the wheel into empty environments, check each, and run the demo there:  python -m tools.installs.

The table has a row for each Python that the project names. One that this machine does not have is a row, too, not an
error. `--lowest` installs the lowest versions that `pyproject.toml` allows and runs a part of the tests with them;
`--extras` prints how much each extra adds. This module needs nothing but Python, so that the workflow of a release can
run it anywhere.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python in the classifiers of the project."""
MOST_MEGABYTES = 220
"""Of the base install, with byte code and with what an empty environment has (pip; before Python 3.12 setuptools)."""
MOST_DISTRIBUTIONS = 34
LOWEST = ROOT / ".ci" / "lowest.txt"
TEST_TOOLS = ("pytest>=8.3,<9.2", "pytest-timeout>=2.3", "hypothesis>=6.112")
TESTS = ("core", "engine", "io", "net", "plan", "store", "text", "judge/test_openai_critic.py", "ui/test_server.py")
"""Tests of the parts that use the base packages."""
LEFT_OUT = (
    "core/test_options.py::test_a_type_accepts_its_values_and_names_the_others",  # prints numbers as numpy 2 does
    "io/test_round_trips.py::test_command_reports_dropped_fields",  # needs pyarrow
    "store/test_secrets.py::test_password_is_never_shown",  # needs psycopg
)
"""Tests that need an extra, or a newer version of a package than the lowest."""
_BLOCK = 4096
_OWN = ("pip", "setuptools")


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment into which the wheel was installed."""

    version: str
    distributions: int
    megabytes: float
    install_seconds: float
    demo_seconds: float = 0.0

    def problems(self) -> list[str]:
        """What is larger than its limit."""
        found = []
        if self.megabytes > MOST_MEGABYTES:
            found.append(f"Python {self.version}: {self.megabytes:.0f} MB installed, {MOST_MEGABYTES} are allowed")
        if self.distributions > MOST_DISTRIBUTIONS:
            found.append(f"Python {self.version}: {self.distributions} distributions, {MOST_DISTRIBUTIONS} are allowed")
        return found


class Environment:
    """An empty virtual environment in a folder."""

    def __init__(self, python: Path, folder: Path, *, constraints: Path | None = None) -> None:
        """Create it. ``constraints``: versions of packages, instead of those that the caller's pip has."""
        self.folder = folder
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.bin / "python"
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        if constraints is not None:
            self.variables["PIP_CONSTRAINT"] = str(constraints)
        self.run([str(python), "-m", "venv", str(folder)])

    def run(self, command: Sequence[str], *, cwd: Path | None = None) -> float:
        """Run a command and return its seconds; what it prints is shown only where it fails."""
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=cwd or self.folder.parent,
            env=self.variables,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n")
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
        return time.monotonic() - started

    def install(self, *requirements: str) -> float:
        """Install with pip, byte code included, and check that nothing conflicts."""
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check"]
        seconds = self.run([*pip, "install", "--quiet", *requirements])
        self.run([*pip, "check"])
        return seconds

    def packages(self) -> Path:
        """The folder of the installed packages."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        command = [str(self.python), "-c", code]
        return Path(subprocess.check_output(command, env=self.variables, text=True).strip())

    def demo(self) -> float:
        """Run the demo of the installed package and return its seconds."""
        seconds = self.run([str(self.bin / "auepora"), "demo"])
        report = self.folder.parent / "auepora-demo" / "report.html"
        assert report.is_file(), f"the demo wrote no {report}"
        return seconds


def disk_bytes(folder: Path) -> int:
    """The bytes that the files of a folder occupy, in whole blocks."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file():
            total += -(-path.stat().st_size // _BLOCK) * _BLOCK
    return total


def distributions(packages: Path) -> list[str]:
    """The names of what is installed in a folder of packages, without what a new environment has."""
    names = [path.name.partition("-")[0] for path in packages.glob("*.dist-info")]
    return sorted(name for name in names if name not in _OWN)


def find_pythons(*, with_pyenv: bool) -> dict[str, Path | None]:
    """An interpreter for each version: this one, one on the path, or one of pyenv; ``None`` where there is none."""
    return {version: find_python(version, with_pyenv=with_pyenv) for version in VERSIONS}


def find_python(version: str, *, with_pyenv: bool) -> Path | None:
    """An interpreter of a version such as ``3.12`` that can make an environment."""
    candidates = [sys.executable]
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        candidates.append(on_path)
    if with_pyenv:
        root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        candidates += map(str, root.glob(f"versions/{version}.*/bin/python{version}"))
    for candidate in candidates:
        if python_version(candidate).startswith(f"{version}."):
            return Path(candidate)
    return None


def python_version(python: str) -> str:
    """The version of an interpreter; empty if it does not start, or cannot put pip into an environment."""
    code = "import ensurepip, platform; print(platform.python_version())"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def try_wheel(python: Path, wheel: Path, *, with_tests: bool) -> Installed:
    """Install the wheel into an empty environment, check it, and run the demo, then a part of the tests if wanted."""
    with tempfile.TemporaryDirectory() as name:
        environment = Environment(python, Path(name) / "venv")
        seconds = environment.install(str(wheel))
        packages = environment.packages()
        count = len(distributions(packages))
        megabytes = disk_bytes(packages) / 1e6
        row = Installed(python_version(str(python)), count, megabytes, seconds, environment.demo())
        if with_tests:
            run_tests(environment)
        return row


def try_pythons(pythons: dict[str, Path | None], wheel: Path, *, with_tests: bool = False) -> list[str]:
    """Print a row for each Python, and return what is larger than its limit."""
    print("| Python | distributions | installed | installation | demo |")
    print("|---|---|---|---|---|")
    problems = []
    for version, python in pythons.items():
        if python is None:
            print(f"| {version} | not found | | | |", flush=True)
            continue
        row = try_wheel(python, wheel, with_tests=with_tests)
        problems += row.problems()
        size = f"{row.distributions} | {row.megabytes:.0f} MB"
        print(f"| {row.version} | {size} | {row.install_seconds:.0f} s | {row.demo_seconds:.0f} s |", flush=True)
    return problems


def try_lowest(wheel: Path) -> None:
    """Install the lowest versions, run the demo, then a part of the tests."""
    with tempfile.TemporaryDirectory() as name:
        environment = Environment(Path(sys.executable), Path(name) / "venv", constraints=LOWEST)
        environment.install(str(wheel))
        print(f"lowest versions: demo {environment.demo():.0f} s", flush=True)
        run_tests(environment)


def run_tests(environment: Environment) -> None:
    """Run a part of the tests with the installed package."""
    environment.install(*TEST_TOOLS)
    tests = [f"tests/{part}" for part in TESTS]
    pytest = [str(environment.python), "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    left_out = [f"--deselect=tests/{name}" for name in LEFT_OUT]
    seconds = environment.run([*pytest, *left_out, *tests], cwd=ROOT)
    print(f"tests of {', '.join(TESTS)}: passed in {seconds:.0f} s", flush=True)


def try_extras(wheel: Path, extras: Iterable[str]) -> None:
    """Print how much each extra adds to the base install, without byte code."""
    base = 0
    for extra in ("", *extras):
        with tempfile.TemporaryDirectory() as name:
            environment = Environment(Path(sys.executable), Path(name) / "venv")
            requirement = f"{wheel}[{extra}]" if extra else str(wheel)
            environment.install("--no-compile", requirement)
            size = disk_bytes(environment.packages())
            count = len(distributions(environment.packages()))
        base = base or size
        print(f"| `{extra or 'base'}` | {count} distributions | {(size - base) / 1e6:.0f} MB more |", flush=True)


def check_tag(tag: str) -> None:
    """Exit with a message if a tag is not that of the version."""
    version = runpy.run_path(str(ROOT / "src" / "auepora_eval" / "_version.py"))["__version__"]
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, and the version in _version.py is {version}")


def build_wheel(folder: Path) -> Path:
    """Build the wheel into a folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> None:
    """Run what the arguments ask for; exit with 1 if something is larger than its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel; by default it is built")
    parser.add_argument("--this-python", action="store_true", help="only the interpreter that runs this")
    parser.add_argument("--tests", action="store_true", help="run a part of the tests, too")
    parser.add_argument("--lowest", action="store_true", help="with the lowest versions that are allowed")
    parser.add_argument("--extras", nargs="+", metavar="NAME", help="how much these extras add")
    parser.add_argument("--tag", help="only check that this tag is the one of the version")
    arguments = parser.parse_args()
    if arguments.tag is not None:
        check_tag(arguments.tag)
        return
    with tempfile.TemporaryDirectory() as name:
        wheel = arguments.wheel or build_wheel(Path(name))
        wheel = wheel.resolve()
        if arguments.lowest:
            try_lowest(wheel)
        elif arguments.extras:
            try_extras(wheel, arguments.extras)
        else:
            pythons = find_pythons(with_pyenv=True)
            if arguments.this_python:
                pythons = {"this": Path(sys.executable)}
            problems = try_pythons(pythons, wheel, with_tests=arguments.tests)
            if problems:
                sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
