"""Runs the tests that failed in the last run again, with nothing beside them."""

import json
import re
import sys
from pathlib import Path

import pytest

MOST = 20
"""With more failures than this, the load of the machine is not the reason."""

recorded = Path(".pytest_cache/v/cache/lastfailed")
failed = json.loads(recorded.read_text(encoding="utf-8")) if recorded.exists() else {}
# Workers add the group of a test to its name, as in `test_page@chromium`.
names = sorted({re.sub(r"@[\w.-]+$", "", name) for name in failed})
heading = f"== {len(names)} tests failed; again with nothing beside them"
sys.stdout.write("\n   ".join([heading, *names]) + "\n")
sys.stdout.flush()
if not 0 < len(names) <= MOST:
    sys.exit(1)
recorded.unlink()
sys.exit(pytest.main(["-q", *names]))
