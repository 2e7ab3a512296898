"""The style sheets: every token that is used is defined, and the colours have the contrast that texts need."""

import re
from itertools import product
from pathlib import Path

import pytest

from helpers.requirements import REPO

SOURCE = REPO / "src" / "auepora_eval"
THEME = (SOURCE / "render" / "assets" / "theme.css").read_text(encoding="utf-8")
SHEETS = sorted(SOURCE.glob("**/assets/*.css"))
LIGHT, DARK, DARK_SYSTEM = (
    dict(re.findall(r"(--[\w-]+): (#\w{6})\b", part))
    for part in re.split(
        r"^(?::root\[data-theme=\"dark\"\]|@media screen)", THEME.partition("@media print")[0], flags=re.MULTILINE
    )
)
TEXTS = ("--ink", "--ink-2", "--ink-3", "--accent", "--better", "--worse", "--gold")
GROUNDS = ("--bg", "--surface", "--sunken", "--hover", "--accent-soft")
GRAPHICS = ("--control", "--bar", "--gold-fill", "--run-a", "--run-b")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_enough_contrast(theme: dict[str, str]) -> None:
    texts = [*product(TEXTS, GROUNDS), ("--ink", "--mark"), ("--accent-ink", "--accent")]
    texts += [(name, f"{name}-soft") for name in ("--better", "--worse", "--gold")]
    graphics = [(name, "--surface") for name in GRAPHICS]
    assert {pair for pair in texts if contrast(theme[pair[0]], theme[pair[1]]) < 4.5} == set()
    assert {pair for pair in graphics if contrast(theme[pair[0]], theme[pair[1]]) < 3} == set()


def test_both_ways_to_the_dark_theme_have_the_same_colours() -> None:
    assert DARK == DARK_SYSTEM


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_every_token_is_defined(sheet: Path) -> None:
    own = sheet.read_text(encoding="utf-8")
    defined = set(re.findall(r"(--[\w-]+):", THEME + own + (SOURCE / "ui/assets/workbench.css").read_text("utf-8")))
    used = set(re.findall(r"var\((--[\w-]+)\)", own))
    assert used <= defined
