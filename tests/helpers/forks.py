"""Processes that begin at once, with everything imported: copies of the one that runs the tests."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable


def forked(work: Callable[[], object]) -> int:
    """The id of a process that does the work and ends: with 0, or with 1 and its traceback where it raised."""
    with warnings.catch_warnings():
        # Threads of number libraries do nothing at this moment; later versions of Python warn of any.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(1)
    return process
