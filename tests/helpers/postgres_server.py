"""A PostgreSQL server of the tests' own: in a folder of its own, on a free port of this machine."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

USER, PASSWORD = "tester", "p4ss word/%?"


def binaries() -> Path | None:
    """The folder of the newest server installed, if any is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return None if initdb is None else Path(initdb).resolve().parent


def _as_server_user(command: Sequence[str]) -> list[str]:
    """A server refuses to be run by root; Debian's package brings a user for it."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


@dataclass
class Server:
    """A server that can be stopped and started again."""

    folder: Path
    bin: Path
    port: int

    def url(self, database: str = "postgres", *, password: str = PASSWORD, scheme: str = "postgresql") -> str:
        return f"{scheme}://{USER}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        self._control("start", "-l", str(self.folder / "log"), "-o", f"-p {self.port} -k {self.folder}")

    def stop(self, how: str = "fast") -> None:
        self._control("stop", "-m", how)

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _control(self, *arguments: str) -> None:
        command = [str(self.bin / "pg_ctl"), "-D", str(self.folder / "data"), "-w", *arguments]
        # The server inherits what is open here: a pipe would never come to its end.
        done = subprocess.run(
            _as_server_user(command),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"pg_ctl {arguments[0]} failed: {(self.folder / 'log').read_text()[-2000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_server(folder: Path, bin_folder: Path) -> Server:
    """A fresh server, started."""
    secret = folder / "password"
    secret.write_text(PASSWORD + "\n")
    if os.geteuid() == 0:
        for path in (folder, secret):
            shutil.chown(path, "postgres", "postgres")
    command = [str(bin_folder / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "scram-sha-256"]
    command += [f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run(_as_server_user(command), cwd="/", check=True, stdout=subprocess.DEVNULL, timeout=120)
    settings = folder / "data" / "postgresql.conf"
    with settings.open("a") as lines:
        lines.write("listen_addresses = '127.0.0.1'\nshared_buffers = 32MB\nmax_connections = 50\n")
    server = Server(folder, bin_folder, free_port())
    server.start()
    return server
