"""What importing the package and asking for help costs: CPU time, and packages loaded. Nothing may run beside it."""

import os
import subprocess
import sys


def fresh(code: str) -> str:
    """What a fresh interpreter prints, with byte code allowed so that imports cost what they cost a user."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_import_loads_no_other_package() -> None:
    loaded = fresh(
        "import sys; before = set(sys.modules); import auepora_eval;"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    assert loaded == "auepora_eval"


def test_import_time() -> None:
    code = "import time; t = time.process_time(); import auepora_eval; print(time.process_time() - t)"
    assert min(float(fresh(code)) for _ in range(5)) < 0.15


def test_help_time() -> None:
    code = (
        "import sys, time\n"
        "from auepora_eval.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(time.process_time(), 'numpy' in sys.modules)"
    )
    runs = [fresh(code).splitlines()[-1].split() for _ in range(5)]
    assert min(float(seconds) for seconds, _ in runs) < 0.3
    assert {loaded for _, loaded in runs} == {"False"}
