"""Pages of reports as tests look at them, and runs that are hard to show."""

import base64
import hashlib
import re
from collections.abc import Sequence
from html.parser import HTMLParser

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.golden_runs import put_run

HOSTILE = (
    "<script>window.pwned=1</script>",
    "</script><img src=x onerror=alert(1)>",
    "</style><style>*{display:none}</style>",
    "]]>--><!--",
    "javascript:alert(1)",
    "null\x00byte",
    "turned \u202eright to left\u2066",
    "emoji 🦉👩‍👩‍👧 ﷽",
    '" onmouseover="alert(1)',
    "{{ 7*7 }}{% raw %}",
    "line\nbreak\ttab",
    "\x1b[31mred\x1b[0m",
    "w" * 5000,
)
_VOID = {"meta", "link", "br", "img", "input", "hr", "wbr", "path", "rect", "line", "circle", "use"}


class Page(HTMLParser):
    """A page taken apart."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.unclosed: list[str] = []
        self.elements: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.headings: list[tuple[int, str]] = []
        self.texts: list[str] = []
        self.wrong: list[str] = []
        self.policy = ""
        self.broken = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "wbr":
            self.broken = True
            return
        if tag not in _VOID:
            self.unclosed.append(tag)
        named = {name: value or "" for name, value in attrs}
        self.attributes += [(tag, name, value) for name, value in named.items()]
        if "id" in named:
            self.ids.append(named["id"])
        if tag == "a":
            self.links.append(named.get("href", ""))
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]
        if tag in self.elements and "svg" not in self.unclosed:
            self.elements[tag].append("" if named.get("type", "") == "" else f"data {named['type']}")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.unclosed.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if not self.unclosed or self.unclosed.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        inside = self.unclosed[-1] if self.unclosed else ""
        if inside in self.elements and "svg" not in self.unclosed:
            self.elements[inside][-1] += data
            return
        if re.fullmatch("h[1-6]", inside) or (inside == "bdi" and "h1" in self.unclosed):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
        if self.broken:  # a place where a word may break is not a blank
            self.texts[-1] += data
        else:
            self.texts.append(data)
        self.broken = False

    @property
    def text(self) -> str:
        """All that is written on it, white space as one blank."""
        return " ".join(" ".join(self.texts).split())

    @property
    def code(self) -> list[str]:
        """Scripts that would run."""
        return [one for one in self.elements["script"] if not one.startswith("data ")]

    def require_sound(self) -> None:
        """What holds for every page: closed elements, ids once, links that lead somewhere, nothing from elsewhere."""
        assert not self.wrong
        assert not self.unclosed
        assert len(self.ids) == len(set(self.ids))
        for link in self.links:
            assert link.startswith("#"), link
            if not link.startswith(("#q/", "#f/")):
                assert link[1:] in self.ids, link
        for tag, name, value in self.attributes:
            assert name not in ("style", "src", "srcset", "action", "formaction", "background"), (tag, name, value)
            assert not name.startswith("on"), (tag, name, value)
            if name in ("href", "xlink:href"):
                assert value.startswith("#"), (tag, name, value)
        assert not {"iframe", "object", "embed", "link", "base", "form", "img"} & set(self.tags)
        assert len(self.code) == len(self.elements["style"]) == 1
        assert f"script-src {digest(self.code[0])}" in self.policy
        assert f"style-src {digest(self.elements['style'][0])}" in self.policy
        assert self.policy.startswith("default-src 'none'")
        assert "unsafe" not in self.policy
        assert not re.search(r"@import|url\(", self.elements["style"][0])
        assert [level for level, _ in self.headings][:2] == [1, 2]
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]", self.html)


def digest(text: str) -> str:
    """What a policy calls a text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def hostile_run(store: RunStore, name: str, texts: Sequence[str] = HOSTILE, *, shift: int = 0) -> RunRecord:
    """A run whose every name is hostile: of samples, labels, slices, metrics, reasons, errors, tags."""
    samples = [
        EvaluationSample(
            f"{text}-{number}",
            text,
            relevant_docs=[Document(text, text)],
            reference_answer=Response(text),
            labels={"kind": text, text: text},
        )
        for number, text in enumerate(texts)
    ]
    outputs = [
        SystemOutputs([], error=f"{text}: {text}")
        if number % 3 == shift
        else SystemOutputs([RetrievedDocument(Document(text, text), 1.0, 1)], Response(text), timings={text: 0.1})
        for number, text in enumerate(texts)
    ]
    record = put_run(
        store,
        name,
        samples,
        outputs,
        tags=list(texts),
        plan={"version": 1, "conventions": {"name": texts[0], texts[1]: texts[2]}, "gates": list(texts[:2])},
        config={text: text for text in texts},
        dataset_name=texts[0],
    )
    store.put_results(record.run_id, [hostile_result(text, texts, place) for place, text in enumerate(texts)])
    return store.get(record.run_id)


def hostile_result(name: str, texts: Sequence[str], place: int) -> MetricResult:
    """A result of a metric with such a name, of groups with such names."""
    targets = list(TargetCategory)
    scores = [None if number % 4 == 0 else number / len(texts) for number in range(len(texts))]
    part = MetricResult(name, targets[place % len(targets)], 0.25, {"num_samples": 3}, interval=(0.1, 0.4))
    return MetricResult(
        name,
        targets[place % len(targets)],
        0.5,
        {
            "num_samples": 3,
            "num_scored": 3,
            "num_skipped": 1,
            f"skipped_{name}": 1,
            "num_measure_failed": 2,
            "num_failed": 2,
            "causes": {text: {"count": 1, "share": 0.1, "interval": [0.0, 0.2]} for text in texts},
            "interval": {"method": name, "units": 3, "flags": [name]},
        },
        scores=scores,
        outcomes=["scored" if one is not None else f"measure_failed:{name}" for one in scores],
        signature=f"{name}|{name}|v1",
        interval=(0.2, 0.8),
        slices={text: dict.fromkeys(texts, part) for text in texts[:2]},
    )
