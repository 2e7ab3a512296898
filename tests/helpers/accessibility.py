"""Checks of a page in a real browser: names of controls, headings, focus, contrast and width."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.requirements import REPO, missing

SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
# Roles of Chromium's accessibility tree that need a name.
NAMED_ROLES = frozenset(
    [
        "button",
        "checkbox",
        "combobox",
        "dialog",
        "image",
        "img",
        "link",
        "listbox",
        "menuitem",
        "navigation",
        "progressbar",
        "radio",
        "region",
        "searchbox",
        "slider",
        "spinbutton",
        "switch",
        "tab",
        "textbox",
        "DisclosureTriangle",
    ]
)
TABS = 20
"""How often the Tab key is pressed on a page."""
PHONE_WIDTH = 360
NARROW = {"width": 390, "height": 844}
"""The window of a phone."""
ZOOM_WIDTH = 320
"""A window of 640 pixels at a zoom of 200 %."""


def load_all(page: Any, *, unfold: bool = False) -> None:
    """Wait until every fragment of the page is filled, also those below the view and inside of others.

    With ``unfold`` what is folded is opened.
    """
    page.evaluate(
        """async (unfold) => {
          if (unfold) for (const one of document.querySelectorAll("main details")) one.open = true;
          const pending = () => [...document.querySelectorAll("[data-fragment]")].find(
            (one) => one.checkVisibility() && (!one.hasAttribute("data-filled") || one.hasAttribute("aria-busy")) && !one.querySelector("[role=alert]"));
          for (let element = pending(), rounds = 0; element; element = pending(), rounds += 1) {
            if (rounds === 3000) throw new Error(`not filled after a minute: ${element.dataset.fragment}`);
            element.scrollIntoView({ behavior: "instant" });
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
          scrollTo({ top: 0, behavior: "instant" });
        }""",
        unfold,
    )


def find_problems(page: Any) -> list[str]:
    """What is wrong with the page in the light and the dark theme, and in narrow windows."""
    page.evaluate(SCRIPT)
    problems = unnamed_controls(page)
    for check in ("headings", "markup", "focus", "obscured"):
        problems += page.evaluate(f"window.accessibility.{check}()")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        problems += [f"{theme}: {one}" for one in page.evaluate("window.accessibility.contrast()")]
    return problems + width_problems(page)


def unnamed_controls(page: Any) -> list[str]:
    """Controls, images and regions for which the browser gives screen readers no name."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    problems = []
    for node in nodes:
        role = node.get("role", {}).get("value")
        if node.get("ignored") or role not in NAMED_ROLES or node.get("name", {}).get("value", "").strip():
            continue
        problems.append(f"{role} without a name (node {node.get('backendDOMNodeId')})")
    return problems


def tab_problems(page: Any) -> list[str]:
    """What the Tab key passes over at the start of the page."""
    page.evaluate("window.accessibility.startTabbing()")
    for _ in range(TABS):
        page.keyboard.press("Tab")
    problems: list[str] = page.evaluate("window.accessibility.tabProblems()")
    return problems


def target_problems(page: Any) -> list[str]:
    """The controls of less than 24 pixels on a desktop and on a phone."""
    page.evaluate(SCRIPT)
    problems: list[str] = page.evaluate("window.accessibility.targets()")
    with narrow_window(page):
        return problems + [f"phone: {one}" for one in page.evaluate("window.accessibility.targets()")]


def covered_on_a_phone(page: Any) -> list[str]:
    """The controls that a bar covers when they have the focus, in the window of a phone."""
    page.evaluate(SCRIPT)
    with narrow_window(page):
        found: list[str] = page.evaluate("window.accessibility.obscured()")
    return found


@contextmanager
def narrow_window(page: Any) -> Iterator[None]:
    """The page in the window of a phone."""
    size = page.viewport_size
    page.set_viewport_size(NARROW)
    yield
    page.set_viewport_size(size)


def axe_script() -> str:
    """The checks of axe-core, which `.ci/javascript` installs and git ignores; without it the test is skipped."""
    path = REPO / "tests" / "js" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.exists():
        missing("axe-core (npm ci --prefix tests/js)")
    return path.read_text(encoding="utf-8")


AXE_OFF = {
    "aria-allowed-role": "the buttons of a grade are a form without script, and a group with a name for screen readers",
    "empty-table-header": "the corner above the names of rows is empty",
    "landmark-unique": "tables of a report that scroll are regions, so that they can be scrolled by keyboard",
}
"""Rules of best practice that are off, and why."""


def axe_problems(page: Any, script: str) -> list[str]:
    """The violations that axe-core finds in the light and the dark theme, of its best practices too."""
    page.evaluate(script)
    problems = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        found = page.evaluate(
            """async (rules) => (await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules})).violations
            .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`)""",
            {name: {"enabled": False} for name in AXE_OFF},
        )
        problems += [f"{theme}: {one}" for one in found]
    return problems


def width_problems(page: Any) -> list[str]:
    """Whether the page scrolls to the side at a zoom of 200 %, which is narrower than a phone."""
    size = page.viewport_size
    page.set_viewport_size({"width": ZOOM_WIDTH, "height": 640})
    problems: list[str] = page.evaluate("window.accessibility.width()")
    page.set_viewport_size(size)
    return problems
