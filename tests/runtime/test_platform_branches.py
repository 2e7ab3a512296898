"""What differs between platforms: the branches of macOS and Windows as far as they run here, and what they are built on."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.runtime.files import append, append_durably, move_to_new, open_for_appending, read_part
from auepora_eval.runtime.line_process import require_process_groups
from auepora_eval.runtime.processes import available_processors, process_exists, process_name
from auepora_eval.runtime.sockets import reuse_address

HOST = socket.gethostname()


@pytest.fixture
def ended_process() -> str:
    """The name of a process of this host that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return f"{HOST}:{process.pid}:1"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[int]:
    file = open_for_appending(tmp_path / "journal.jsonl")
    yield file
    os.close(file)


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_commands_run_where_there_are_process_groups(platform: str) -> None:
    require_process_groups(platform=platform)


def test_on_windows_the_error_names_what_to_use_instead() -> None:
    with pytest.raises(BadValueError, match=r"not available on Windows.*use an HTTP endpoint or a Python system"):
        require_process_groups(platform="win32")


def test_on_windows_another_process_is_known_by_its_heartbeat_alone(ended_process: str) -> None:
    assert process_exists(ended_process, platform="linux") is False
    assert process_exists(ended_process, platform="win32") is None


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_this_process_exists_on_every_platform(platform: str) -> None:
    assert process_exists(process_name(), platform=platform)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_process_of_another_host_is_unknown_on_every_platform(platform: str) -> None:
    assert process_exists(f"elsewhere:{os.getpid()}:1", platform=platform) is None


def test_processors() -> None:
    assert 1 <= available_processors() <= (os.cpu_count() or 1)


def test_reading_a_part_does_not_move_where_lines_are_appended(journal: int, tmp_path: Path) -> None:
    append(journal, b"first\n")
    assert read_part(journal, 0, 3) == b"fir"
    append(journal, b"second\n")
    assert read_part(journal, 6, 100) == b"second\n"
    assert (tmp_path / "journal.jsonl").read_bytes() == b"first\nsecond\n"


def test_durable_lines_are_appended(journal: int, tmp_path: Path) -> None:
    append_durably(journal, b"first\n")
    append_durably(journal, b"second\n")
    assert (tmp_path / "journal.jsonl").read_bytes() == b"first\nsecond\n"


def test_a_file_that_must_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_for_appending(tmp_path / "journal.jsonl", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_gets_its_name_only_once(tmp_path: Path) -> None:
    first, second, target = tmp_path / "first", tmp_path / "second", tmp_path / "target"
    first.write_text("first")
    second.write_text("second")
    move_to_new(first, target)
    with pytest.raises(FileExistsError):
        move_to_new(second, target)
    assert target.read_text() == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["second", "target"]


def test_a_port_in_use_is_an_error() -> None:
    with closing(socket.socket()) as first, closing(socket.socket()) as second:
        for listening in (first, second):
            reuse_address(listening)
        first.bind(("127.0.0.1", 0))
        first.listen()
        with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            second.bind(first.getsockname())
