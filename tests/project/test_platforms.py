"""What only some platforms have is used in ``runtime`` alone; the types of that package hold on macOS and Windows, too."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.requirements import REPO
from tools.source_tree import MODULES, SOURCE, module_name, parse

pytestmark = pytest.mark.xdist_group("source_tree")

PORTABLE_OS = {
    "PathLike", "_exit", "close", "cpu_count", "devnull", "dup", "dup2", "environ", "fspath", "fstat", "getcwd", "getpid", "linesep",
    "open", "O_WRONLY", "path", "pathsep", "replace", "stat", "stat_result", "urandom", "walk", "write",
}  # fmt: skip
"""What may be used of ``os`` everywhere: it does the same on Linux, macOS and Windows."""
PORTABLE_SOCKET = {
    "AF_INET", "EAI_AGAIN", "IPPROTO_TCP", "SOCK_STREAM", "create_connection", "gaierror", "socket",
}  # fmt: skip
PLATFORM_MODULES = {
    "_winapi", "curses", "fcntl", "grp", "msvcrt", "posix", "pty", "pwd", "resource", "select", "selectors", "signal", "syslog",
    "termios", "tty", "winreg",
}  # fmt: skip
PROCESS_OPTIONS = {
    "creationflags",
    "pass_fds",
    "preexec_fn",
    "process_group",
    "start_new_session",
    "startupinfo",
    "umask",
}
PATH_METHODS = {"chmod", "hardlink_to", "lchmod", "symlink_to"}
START_METHODS = {"fork", "forkserver"}
SYSTEM_FOLDERS = ("/bin/", "/dev/", "/etc/", "/proc/", "/sys/", "/tmp", "/usr/", "/var/")
TEXT_METHODS = {"read_text", "write_text"}
ALLOWED = {("cli.options", "/dev/stdout"): "a name that users give for stdout: it is compared, never opened"}
"""Pairs of module and use that the rule leaves out, with the reason."""


def docstrings(tree: ast.Module) -> set[int]:
    """The ids of the strings that are statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def uses_of_attributes(node: ast.Attribute) -> Iterator[str]:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if owner == "os" and node.attr not in PORTABLE_OS:
        yield f"os.{node.attr}"
    elif owner == "sys" and node.attr in ("platform", "getwindowsversion"):
        yield f"sys.{node.attr}"
    elif owner == "platform" and node.attr != "node":
        yield f"platform.{node.attr}"
    elif owner == "socket" and node.attr.isupper() and node.attr not in PORTABLE_SOCKET:
        yield f"socket.{node.attr}"
    elif node.attr == "add_signal_handler":
        yield node.attr


def uses_of_calls(node: ast.Call) -> Iterator[str]:
    given = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
    yield from sorted(given & PROCESS_OPTIONS)
    if not isinstance(node.func, ast.Attribute):
        return
    name, owner = node.func.attr, ast.unparse(node.func.value)
    if name in PATH_METHODS and owner != "os":
        yield f"Path.{name}"
    # The formatter of click's help texts has a write_text, too.
    if name in TEXT_METHODS and owner != "formatter" and "encoding" not in given:
        yield f"{name} without an encoding"
    if name in ("get_context", "set_start_method"):
        values = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
        yield from (str(value) for value in values if value in START_METHODS)


def uses_of_platforms(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines of a module that use something that not all platforms have, with what it is."""
    left_out = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in PLATFORM_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = names_imported_from(node)
        elif isinstance(node, ast.Attribute):
            names = list(uses_of_attributes(node))
        elif isinstance(node, ast.Call):
            names = list(uses_of_calls(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            names = [node.value] if node.value.startswith(SYSTEM_FOLDERS) else []
        else:
            names = []
        yield from ((getattr(node, "lineno", 0), name) for name in names)


def names_imported_from(node: ast.ImportFrom) -> list[str]:
    names = [alias.name for alias in node.names]
    if node.level:
        return []
    if node.module in PLATFORM_MODULES:
        return [node.module or ""]
    if node.module == "os":
        return [f"os.{name}" for name in names if name not in PORTABLE_OS]
    if node.module == "sys":
        return [f"sys.{name}" for name in names if name == "platform"]
    return []


def uses_outside_runtime() -> list[tuple[str, int, str]]:
    found = []
    for path in MODULES:
        module = module_name(path)
        if not module.startswith("runtime"):
            found += [(module, line, use) for line, use in uses_of_platforms(parse(path))]
    return found


def test_only_runtime_knows_the_platform() -> None:
    uses = uses_outside_runtime()
    assert [use for use in uses if (use[0], use[2]) not in ALLOWED] == []
    assert set(ALLOWED) == {(module, use) for module, _, use in uses}


PLANTED = [  # code, what the rule finds, why
    ("import os\nos.fork()", ["os.fork"], "there is no fork on Windows"),
    ("import os\nos.killpg(3, 9)", ["os.killpg"], "Windows has no process groups"),
    ("import os\nos.kill(3, 0)", ["os.kill"], "on Windows signal 0 is Ctrl-C"),
    ("import os\nos.fsync(3)", ["os.fsync"], "folders cannot be synced on Windows"),
    ("import os\nos.pread(3, 1, 0)", ["os.pread"], "not on Windows"),
    ("import os\nos.link('a', 'b')", ["os.link"], "not on every file system"),
    ("import os\nos.chmod('a', 384)", ["os.chmod"], "Windows knows only one of the bits"),
    ("import os\nos.getuid()", ["os.getuid"], "users of Windows have no number"),
    ("import os\nos.uname()", ["os.uname"], "not on Windows"),
    ("import os\nos.sched_getaffinity(0)", ["os.sched_getaffinity"], "on Linux only"),
    ("import os\nos.name == 'posix'", ["os.name"], "a branch by platform belongs into runtime"),
    ("import os\nos.O_APPEND", ["os.O_APPEND"], "without O_BINARY Windows writes other line ends"),
    ("from os import fork, path", ["os.fork"], "imported by name"),
    ("import sys\nsys.platform", ["sys.platform"], "a branch by platform belongs into runtime"),
    ("from sys import platform", ["sys.platform"], "imported by name"),
    ("import platform\nplatform.system()", ["platform.system"], "a branch by platform belongs into runtime"),
    ("import fcntl", ["fcntl"], "locks of files"),
    ("from signal import SIGKILL", ["signal"], "signals"),
    ("def f():\n    import resource", ["resource"], "inside a function, too"),
    ("import socket\nsocket.AF_UNIX", ["socket.AF_UNIX"], "not on Windows"),
    ("import socket\nsocket.SO_REUSEADDR", ["socket.SO_REUSEADDR"], "another meaning on Windows"),
    ("loop.add_signal_handler(2, f)", ["add_signal_handler"], "not on Windows"),
    ("from subprocess import Popen\nPopen(['a'], start_new_session=True)", ["start_new_session"], "not on Windows"),
    ("import multiprocessing as m\nm.get_context('fork')", ["fork"], "not on Windows, and not safe on macOS"),
    ("path.chmod(384)", ["Path.chmod"], "Windows knows only one of the bits"),
    ("path.symlink_to(other)", ["Path.symlink_to"], "needs a right on Windows"),
    ("path.read_text()", ["read_text without an encoding"], "on Windows the encoding is not UTF-8"),
    ("open_it('/dev/shm/a')", ["/dev/shm/a"], "on Linux only"),
    ("text = f'/proc/{pid}'", ["/proc/"], "on Linux only"),
    ("'''Reads /proc/self.'''", [], "a docstring"),
    ("import os\nos.path.join(os.getcwd(), 'a')", [], "the same everywhere"),
    ("path.read_text(encoding='utf-8')", [], "the same everywhere"),
    ("from .signal import f", [], "a module of our own"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "want"), [row[:2] for row in PLANTED], ids=[row[2] + ": " + row[0] for row in PLANTED]
)
def test_a_planted_use_is_found(code: str, want: list[str]) -> None:
    assert [use for _, use in uses_of_platforms(ast.parse(code))] == want


def type_errors(platform: str, folder: Path, cache: Path) -> str:
    """The errors of mypy for a platform; its cache is of no use afterwards, since the platform is another."""
    command = [sys.executable, "-m", "mypy", "--platform", platform, "--cache-dir", str(cache), str(folder)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_types_of_runtime_hold_on_other_platforms(platform: str, tmp_path: Path) -> None:
    assert type_errors(platform, SOURCE / "runtime", tmp_path) == ""


@pytest.mark.slow
def test_the_types_of_a_platform_are_checked(tmp_path: Path) -> None:
    (tmp_path / "uses_fork.py").write_text("import os\n\nos.fork()\n", encoding="utf-8")
    assert 'no attribute "fork"' in type_errors("win32", tmp_path / "uses_fork.py", tmp_path / "cache")
