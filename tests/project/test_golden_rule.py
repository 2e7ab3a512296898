"""Golden files change in commits of their own, wording files with the change they belong to."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import golden
from helpers.requirements import REPO, missing

SCRIPT, LIST = ".ci/check_golden_commits", "tests/helpers/wording_files.txt"
STRICT, WORDING, HASHES = "tests/golden/metrics/values_1.json", "tests/golden/cli/help.txt", "tests/golden/SHA256SUMS"
SOURCE, OTHER = "src/a.py", "docs/a.md"


class Repository:
    """A git repository with the rule in its second commit; a commit of a file changes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit(SOURCE, STRICT, WORDING, HASHES)
        for name in (SCRIPT, LIST):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPO / name, folder / name)
        self.commit()

    def git(self, *arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(self.folder), *author, *arguments]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def commit(self, *names: str) -> None:
        """Commit a new line in each of the files, and whatever else was changed."""
        for name in names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write("# line\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Change {', '.join(names)}")

    def check(self, folder: Path | None = None) -> tuple[int, str]:
        """Exit code and output of the script."""
        command = ["bash", str((folder or self.folder) / SCRIPT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    if shutil.which("git") is None:
        missing("git")
    if not (REPO / SCRIPT).exists():
        missing(f"{SCRIPT}, which an sdist does not have")
    folder = tmp_path / "repository"
    folder.mkdir()
    return Repository(folder)


ROWS = [  # files of a commit, exit code, why
    ([SOURCE, OTHER], 0, "no golden file"),
    ([STRICT, HASHES], 0, "strict files alone"),
    ([STRICT, WORDING, HASHES], 0, "strict files and wording, nothing else"),
    ([WORDING, HASHES, SOURCE], 0, "wording with the change it belongs to"),
    ([STRICT, SOURCE], 1, "a strict file with the source"),
    ([STRICT, OTHER], 1, "a strict file with documentation"),
    ([STRICT, WORDING, HASHES, SOURCE], 1, "wording does not excuse a strict file"),
    (["tests/golden/metrics/new.json", SOURCE], 1, "a new strict file with the source"),
    (["tests/golden/metrics/help.txt", SOURCE], 1, "only the name of a wording file"),
    ([STRICT, SCRIPT], 1, "a strict file with the rule itself"),
    ([STRICT, LIST], 1, "a strict file with the list of wording files"),
]


@pytest.mark.parametrize(("names", "code", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_a_commit(repository: Repository, names: list[str], code: int, why: str) -> None:
    repository.commit(*names)
    assert repository.check()[0] == code, why
    repository.commit(OTHER)
    assert repository.check()[0] == code, "a later commit changes nothing"


def test_the_message_names_commit_and_files(repository: Repository) -> None:
    repository.commit(STRICT, WORDING, SOURCE)
    first, second = repository.check()[1].splitlines()
    assert re.fullmatch(rf"[0-9a-f]+ \(Change .*\) changes {STRICT} and also {SOURCE} ", first)
    assert "CONTRIBUTING.md" in second


def test_commits_before_the_rule_are_not_checked(repository: Repository) -> None:
    repository.commit(STRICT, SOURCE)
    assert repository.check()[0] == 1
    repository.commit(SCRIPT)
    assert repository.check() == (0, "")


def test_merges_are_not_checked_but_their_commits_are(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit(STRICT)
    repository.git("checkout", "--quiet", "main")
    repository.commit(SOURCE)
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge", "side")
    assert repository.check() == (0, "")
    repository.git("checkout", "--quiet", "side")
    repository.commit(STRICT, OTHER)
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge", "side")
    assert repository.check()[0] == 1


def test_a_shallow_clone(repository: Repository, tmp_path: Path) -> None:
    """Its last commit seems to add every file; commits after it are checked."""
    repository.commit(SOURCE)
    repository.commit(WORDING, SOURCE)
    for depth in ("1", "2"):
        clone = tmp_path / f"depth_{depth}"
        repository.git("clone", "--quiet", f"--depth={depth}", repository.folder.as_uri(), str(clone))
        assert repository.check(clone) == (0, "")
    repository.commit(STRICT, SOURCE)
    clone = tmp_path / "rejected"
    repository.git("clone", "--quiet", "--depth=2", repository.folder.as_uri(), str(clone))
    assert repository.check(clone)[0] == 1


def test_wording_files_are_those_and_exist() -> None:
    """Numbers, signatures, digests, keys, the schema and exit codes are in none of them."""
    named = {path.relative_to(golden.GOLDEN).as_posix() for path in golden.GOLDEN.rglob("*wording*")}
    assert named | {"cli/help.txt", "cli/options.json", "cli/tables.txt"} == golden.WORDING_FILES
    assert [name for name in golden.WORDING_FILES if not (golden.GOLDEN / name).is_file()] == []


def test_make_golden_runs_the_tests_of_the_wording_files() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    listed = re.search(r"^WORDING_TESTS := .*,(.*)\)$", makefile, re.MULTILINE)
    assert listed is not None
    checks_wording = re.compile(r'check_golden(?:_text)?\(\s*f?"(?:[^"]*wording|cli/(?:help|options|tables)\.)')
    modules = sorted((REPO / "tests" / "regression").glob("test_golden_*.py"))
    writers = [path for path in modules if checks_wording.search(path.read_text(encoding="utf-8"))]
    assert listed[1].split() == [path.stem.removeprefix("test_golden_") for path in writers]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of golden files: one of numbers, one of wording, and their hashes."""
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "help.txt").write_text("old")
    (tmp_path / "values.json").write_text("1")
    golden.write_hashes()
    return tmp_path


def test_only_wording_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUEPORA_WRITE_GOLDEN", "wording")
    golden.check_golden_text("cli/help.txt", "new")
    golden.check_golden("cli/options.json", {"options": 1})
    assert (folder / "cli" / "help.txt").read_text() == "new"
    assert (folder / "cli" / "options.json").exists()
    with pytest.raises(pytest.fail.Exception, match=r"differs from tests/golden/values\.json"):
        golden.check_golden("values.json", 2)
    with pytest.raises(pytest.fail.Exception, match=r"tests/golden/new\.json does not exist"):
        golden.check_golden("new.json", 2)
    assert not golden.write_golden(), "tests that record a store or a cache record none"
    assert (folder / "values.json").read_text() == "1"


def test_nothing_is_written_in_ci(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUEPORA_WRITE_GOLDEN", "wording")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"differs from tests/golden/cli/help\.txt"):
        golden.check_golden_text("cli/help.txt", "new")


def test_only_hashes_of_wording_are_written(folder: Path) -> None:
    before = golden.recorded_hashes()
    (folder / "cli" / "help.txt").write_text("new")
    (folder / "values.json").write_text("2")
    (folder / "new.json").write_text("3")
    golden.write_hashes(wording_only=True)
    after = golden.recorded_hashes()
    assert after["cli/help.txt"] == golden.file_hashes()["cli/help.txt"] != before["cli/help.txt"]
    assert after["values.json"] == before["values.json"], "by hand: the test of the hashes fails"
    assert "new.json" not in after
