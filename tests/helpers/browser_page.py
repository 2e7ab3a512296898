"""A page around the query browser, as strict as the report's, and a real browser to open it in."""

import base64
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auepora_eval.render.blocks import PageFragment
from auepora_eval.report.browser.listing import build_browser
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers import requirements

DARK = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --muted: #5b6470; --line: #d8dde3; --accent: #0b5cad; --good: #14692b; --bad: #a8201a; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --fg: #e6e9ed; --muted: #9aa4b0; --line: #333a42; --accent: #6db3f2; --good: #5fd07f; --bad: #ff8a80; } }
body { background: var(--bg); color: var(--fg); font-family: system-ui, sans-serif; margin: 1rem; }
"""


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_text(fragment: PageFragment) -> str:
    """The fragment in a page of its own."""
    css = DARK + fragment.css
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest(fragment.script)}'; style-src 'sha256-{digest(css)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    blocks = "\n".join(f'<script type="{mime}" id="{name}">{text}</script>' for name, mime, text in fragment.data)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Report</title><style>{css}</style></head><body><header>Report</header>"
        f'<main id="overview"><h1>Overview</h1></main><section id="queries">{fragment.html}</section>'
        f"{blocks}<script>{fragment.script}</script></body></html>\n"
    )


def write_page(store: RunStore, records: Sequence[RunRecord], path: Path) -> Path:
    path.write_text(page_text(build_browser(store, records)), encoding="utf-8")
    return path


class Watched:
    """A page of a real browser, with everything that it complained about or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, path: Path, address: str = "") -> Any:
        """Open a file; return once the list is there."""
        self.page.goto(path.as_uri() + address)
        self.page.locator("#queries[data-ready=true]").wait_for(state="attached")
        return self.page

    def check(self, path: Path) -> None:
        """Nothing was complained about, and nothing but the file itself was asked for."""
        assert self.complaints == []
        assert self.dialogs == []
        others = [
            url for url in self.requests if url.partition("#")[0] != path.as_uri() and not url.startswith("data:")
        ]
        assert others == []


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's chromium without a window system, which is faster, else chromium; or the running test is skipped."""
    requirements.check_marked_slow("chromium")
    api = requirements.need("playwright.sync_api")
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        requirements.missing("program chromium")
    api.expect.set_options(timeout=30_000)  # a busy machine
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
