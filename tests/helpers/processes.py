"""A child process that cannot keep a test from ending."""

import subprocess
from types import TracebackType
from typing import AnyStr


class Process(subprocess.Popen[AnyStr]):
    """Is killed when an exception leaves its ``with`` block, such as that of the time limit; ``Popen`` would wait."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, traceback)
