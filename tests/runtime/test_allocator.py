"""Freed memory is kept: the next batch does not request the same pages again."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from auepora_eval.runtime.processes import disable_malloc_trim
if sys.argv[1] == "kept":
    disable_malloc_trim()
for _ in range(30):
    np.ones(5_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_memory_pages_are_requested_once() -> None:
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, text=True)
        return int(done.stdout)

    plain, kept = faults("plain"), faults("kept")
    # Thirty arrays of 40 MB, one after the other, in the memory of one: what Python and numpy need at the start is all
    # that is left. Where the system hands out large pages there are few faults either way.
    assert kept < plain or plain < 20_000
    assert kept < 40_000


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_no_op_on_other_platforms(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from auepora_eval.runtime.processes import disable_malloc_trim

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setitem(sys.modules, "ctypes", None)  # importing it would raise
    disable_malloc_trim()
