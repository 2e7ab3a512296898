"""Charts in a real browser, under the policy of reports: page colours and layout."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from helpers.chart_gallery import GALLERY

STYLE = ":root { --chart-1: rgb(1, 2, 3); --fg: rgb(4, 5, 6); } svg { display: block; }"
# How far texts and marks reach beyond their picture, as the browser's own letters are.
OVERHANG = """() => [...document.querySelectorAll('svg')].map(svg => {
  const frame = svg.getBoundingClientRect();
  let most = 0, who = '';
  for (const one of svg.querySelectorAll('text, circle, rect, polygon')) {
    const box = one.getBoundingClientRect();
    const out = Math.max(frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom);
    if (out > most) { most = out; who = one.textContent || one.tagName; }
  }
  return [most, who];
})"""


def page_of_charts(**options: Any) -> str:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    drawn = "".join(f"<figure>{make().to_svg(**options)}</figure>" for make in GALLERY.values())
    return (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>charts</title><style>{STYLE}</style><body>{drawn}"
    )


def test_charts_use_page_colours_and_stay_in_their_frames(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "charts.html"
    complaints: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    for options in ({}, {"width": 420}):
        path.write_text(page_of_charts(**options), encoding="utf-8")
        page.goto(path.as_uri())
        fill = "() => getComputedStyle(document.querySelector('.mark-point circle')).fill"
        assert page.evaluate(fill) == "rgb(1, 2, 3)"
        beyond = dict(zip(GALLERY, page.evaluate(OVERHANG), strict=True))
        assert {name: found for name, found in beyond.items() if found[0] > 3} == {}
    page.close()
    assert complaints == []
