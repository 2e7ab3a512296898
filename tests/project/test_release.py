"""What a release needs agrees: versions of Python, lowest versions, limits of size, the workflow, the line of the README."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from auepora_eval import __version__
from helpers.requirements import REPO
from tools import installs

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((REPO / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
INSTALL_LINE = "`pip install auepora-eval` installs it and `auepora demo` shows it. From a clone:"


def read_page(name: str) -> str:
    return (REPO / name).read_text(encoding="utf-8")


def command_lines() -> list[str]:
    """The commands of all steps of the workflow."""
    steps = [step for job in JOBS.values() for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def test_versions_of_python_agree() -> None:
    supported = list(installs.VERSIONS)
    classifiers = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert classifiers == supported
    assert PROJECT["requires-python"] == f">={supported[0]}"
    assert JOBS["install"]["strategy"]["matrix"]["python"] == supported
    assert re.findall(r"^\| (3\.\d+) \|", read_page("docs/platforms.md"), re.MULTILINE) == supported


def test_only_the_job_that_publishes_may_ask_for_a_token() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    permissions = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert permissions == {"publish": {"id-token": "write"}}
    assert sorted(JOBS["publish"]["needs"]) == ["build", "install"]
    assert JOBS["publish"]["environment"] == "release"
    assert "secrets." not in read_page(".github/workflows/release.yml")
    # What publishes runs no code of this repository, and no other packages.
    assert ["run" in step for step in JOBS["publish"]["steps"]] == [False, False]


def test_actions_are_pinned() -> None:
    used = [step["uses"] for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert used[-1].startswith("pypa/gh-action-pypi-publish@")
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


def test_the_wheel_is_installed_on_every_platform() -> None:
    assert JOBS["install"]["strategy"]["matrix"]["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert "python tools/installs.py --this-python --wheel dist/*.whl" in command_lines()
    assert "python -m twine check --strict dist/*" in command_lines()


@pytest.mark.parametrize(("tag", "code"), [(f"v{__version__}", 0), (__version__, 1), ("v999.0.0", 1)])
def test_a_tag_must_be_the_version(tag: str, code: int) -> None:
    assert 'python tools/installs.py --tag "$GITHUB_REF_NAME"' in command_lines()
    done = subprocess.run(
        [sys.executable, "tools/installs.py", "--tag", tag], cwd=REPO, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr


def test_only_tags_of_versions_are_released() -> None:
    (pattern,) = WORKFLOW[True]["push"]["tags"]  # in YAML 1.1, the key `on` is a truth value
    as_expression = pattern.replace(".", r"\.")
    assert re.fullmatch(as_expression, "v0.1.0")
    assert not re.fullmatch(as_expression, "v0.1.0.dev0")


def test_the_line_of_the_readme_has_one_of_two_states() -> None:
    lines = read_page("README.md").splitlines()
    found = [line for line in lines if "pip install auepora-eval" in line]
    is_on = found == [INSTALL_LINE]
    assert is_on or found == [f"<!-- {INSTALL_LINE} -->"]
    if ".dev" not in __version__:
        assert is_on, "a release can be installed by its name: docs/releasing.md, step 3"
    page = read_page("docs/releasing.md")
    assert "remove `<!-- ` and ` -->` around the line that begins with `` `pip install auepora-eval` ``" in page


def test_lowest_versions_are_those_of_the_project() -> None:
    expected = {}
    for text in PROJECT["dependencies"]:
        requirement = Requirement(text)
        (lowest,) = [part.version for part in requirement.specifier if part.operator == ">="]
        expected[canonicalize_name(requirement.name)] = Version(lowest)
    listed = {}
    for line in read_page(".ci/lowest.txt").splitlines():
        name, equals, version = line.partition("==")
        if equals:
            listed[canonicalize_name(name)] = Version(version)
    assert listed == expected


def test_tests_with_the_lowest_versions_exist() -> None:
    parts = [*installs.TESTS, *(name.partition("::")[0] for name in installs.LEFT_OUT)]
    assert [part for part in parts if not (REPO / "tests" / part).exists()] == []
    tools = {Requirement(tool).name: Requirement(tool) for tool in installs.TEST_TOOLS}
    dev = [Requirement(text) for text in PROJECT["optional-dependencies"]["dev"]]
    assert [requirement for requirement in dev if requirement.name in tools] == list(tools.values())


def test_the_limits_are_documented() -> None:
    page = read_page("docs/dependencies.md")
    assert f"the limits are {installs.MOST_DISTRIBUTIONS} and {installs.MOST_MEGABYTES} MB" in page


SIZES = [  # distributions, megabytes, problems
    (34, 220.0, []),
    (35, 220.0, ["Python 3.11.7: 35 distributions, 34 are allowed"]),
    (28, 220.6, ["Python 3.11.7: 221 MB installed, 220 are allowed"]),
]


@pytest.mark.parametrize(("distributions", "megabytes", "problems"), SIZES)
def test_a_base_install_that_is_too_large(distributions: int, megabytes: float, problems: list[str]) -> None:
    row = installs.Installed("3.11.7", distributions, megabytes, 20.0)
    assert row.problems() == problems


def test_sizes_are_counted_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "small").write_bytes(b"1")
    (tmp_path / "a" / "empty").write_bytes(b"")
    (tmp_path / "two").write_bytes(bytes(4097))
    assert installs.disk_bytes(tmp_path) == 3 * 4096


def test_what_a_new_environment_has_is_not_counted(tmp_path: Path) -> None:
    for name in ("pip-23.2.1", "setuptools-65.5.0", "numpy-2.4.6", "auepora_eval-0.1.0"):
        (tmp_path / f"{name}.dist-info").mkdir()
    assert installs.distributions(tmp_path) == ["auepora_eval", "numpy"]


def test_a_python_that_is_missing_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert installs.find_python("3.99", with_pyenv=True) is None
    assert installs.try_pythons({"3.99": None}, tmp_path / "a.whl") == []
    assert "| 3.99 | not found |" in capsys.readouterr().out


def test_a_link_to_a_python_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "python3.99"
    link.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    link.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert installs.find_python("3.99", with_pyenv=False) is None


def test_this_python_is_found() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert installs.find_python(version, with_pyenv=False) == Path(sys.executable)


def test_a_command_that_fails_ends_with_its_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = installs.Environment.__new__(installs.Environment)
    environment.folder, environment.variables = tmp_path / "venv", {}
    with pytest.raises(SystemExit, match="exit code 3"):
        environment.run([sys.executable, "-c", "print('what it printed'); raise SystemExit(3)"])
    assert "what it printed" in capsys.readouterr().out
