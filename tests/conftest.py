"""What every test shares: settings of Hypothesis, and the command line as a function."""

import os
from collections.abc import Callable

import pytest
from hypothesis import settings

from auepora_eval.cli.main import main

# Frameworks whose objects are adapted in some tests would report home; they look at this when they are imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # no test reaches for a model beyond this machine

# The models of the tests are tiny: threads that wait for each other bring nothing, and cost minutes on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Deadlines measure the machine, not the code; derandomised examples make a red run repeatable.
settings.register_profile("auepora", deadline=None, derandomize=True)
settings.load_profile("auepora")


@pytest.fixture
def auepora(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs ``auepora`` with these arguments: exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, captured.out, captured.err

    return call
