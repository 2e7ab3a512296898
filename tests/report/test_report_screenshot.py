"""The report of the demo in a real browser, and the picture of it in the README.

``AUEPORA_WRITE_SCREENSHOT=1`` writes ``docs/images/report.png`` again.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.cli.main import main
from helpers.browser_page import Watched
from helpers.requirements import REPO

SCREENSHOT = REPO / "docs" / "images" / "report.png"
MAX_BYTES = 200_000
VIEWPORT = {"width": 1200, "height": 900}


def test_report_of_the_demo_renders(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr("auepora_eval.models.loading.find_installed_model", lambda: None)  # loading one takes a while
    with contextlib.suppress(SystemExit):
        main(["demo"])
    path = tmp_path / "auepora-demo" / "report.html"
    context = browser.new_context(viewport=VIEWPORT, color_scheme="light")
    context.set_default_timeout(10_000)
    watched = Watched(context.new_page())
    page = watched.open(path)
    assert "bm25" in page.locator("body").inner_text()
    assert page.locator("svg").count() > 0
    picture = page.screenshot()
    watched.check(path)
    context.close()
    if os.environ.get("AUEPORA_WRITE_SCREENSHOT") == "1":
        SCREENSHOT.parent.mkdir(exist_ok=True)
        SCREENSHOT.write_bytes(picture)
    assert SCREENSHOT.stat().st_size < MAX_BYTES
    assert SCREENSHOT.read_bytes()[:8] == picture[:8] == b"\x89PNG\r\n\x1a\n"
