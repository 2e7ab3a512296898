"""The pages of the documentation site: what is navigated, and Markdown of this repository as the site reads it.

``tools/docs_site.py`` calls these functions from mkdocs; nothing here needs it.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from tools.source_tree import REPO

DOCS_MAP = "docs/README.md"
SITE_PAGES = {
    "README.md": "index.md",
    DOCS_MAP: "all-pages.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
"""Pages that have another place on the site than in ``docs/``: path in the repository to path on the site."""
PROJECT_PAGES = {"Contributing": "CONTRIBUTING.md", "Security": "SECURITY.md", "Changes": "CHANGELOG.md"}
LEXERS = {"jsonl": "json", "csv": "text"}
"""Languages of code blocks that the highlighter knows under another name."""

_LISTED_PAGE = re.compile(r"^( *)\* \[([^\]]+)\]\(([^)#]+\.md)\)")
_INDEXED_PAGE = re.compile(r"^(?:\||\*|\d+\.) \[(`[^`]+`|[^\]]+)\]\(([^)#/]+\.md)\)")
_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^( *)```(\w*)(?: (\S+))?$")


@dataclass(slots=True)
class Section:
    """A heading of the navigation, with its pages (title and path on the site) and sections in their order."""

    title: str
    children: list[Section | tuple[str, str]] = field(default_factory=list)

    def as_nav(self) -> dict[str, object]:
        """The section as mkdocs has it."""
        children: list[dict[str, object]] = []
        for child in self.children:
            if isinstance(child, Section):
                children.append(child.as_nav())
            else:
                title, path = child
                children.append({title: path})
        return {self.title: children}


def read_page(path: str) -> str:
    """The text of a file of the repository."""
    return (REPO / path).read_text(encoding="utf-8")


def map_sections(text: str) -> list[Section]:
    """The sections of the map of the documentation: its headings, its bold subheadings and its lists of pages.

    A page with a list of pages below it becomes a section that begins with this page.
    """
    sections: list[Section] = []
    group: Section | None = None
    for line in text.splitlines():
        listed = _LISTED_PAGE.match(line)
        if line.startswith("## "):
            group = Section(line.removeprefix("## "))
            sections.append(group)
        elif line.startswith("**") and line.endswith("**") and sections:
            group = Section(line.strip("*"))
            sections[-1].children.append(group)
        elif listed is not None and group is not None:
            indent, title, path = listed.groups()
            if indent:
                _last_as_section(group).children.append((title, path))
            else:
                group.children.append((title, path))
    return sections


def _last_as_section(group: Section) -> Section:
    """The last child of a group; a page becomes a section that has the page."""
    last = group.children[-1]
    if isinstance(last, Section):
        return last
    title, path = last
    section = Section(title, [("Overview", path)])
    group.children[-1] = section
    return section


def index_children(text: str, folder: str) -> list[Section | tuple[str, str]]:
    """The pages of a folder that its ``README.md`` lists in tables and lists, under the headings it has."""
    top = Section("")
    section = top
    for line in text.splitlines():
        indexed = _INDEXED_PAGE.match(line)
        if line.startswith("## "):
            section = Section(line.removeprefix("## "))
            top.children.append(section)
        elif indexed is not None:
            title, name = indexed.groups()
            section.children.append((title.strip("`"), f"{folder}/{name}"))
    return [child for child in top.children if not isinstance(child, Section) or child.children]


def navigation() -> list[dict[str, object]]:
    """The navigation of the site: the landing page, the sections of the map of the documentation, and the project."""
    sections = map_sections(read_page(DOCS_MAP))
    for section in sections:
        _add_indexed_pages(section)
    project = Section("Project", [(title, SITE_PAGES[path]) for title, path in PROJECT_PAGES.items()])
    project.children.append(("All pages", SITE_PAGES[DOCS_MAP]))
    parts = [section.as_nav() for section in [*sections, project]]
    return [{"Home": SITE_PAGES["README.md"]}, *parts]


def _add_indexed_pages(section: Section) -> None:
    """Put the pages of a folder below its index, which is what the map of the documentation lists."""
    for place, child in enumerate(section.children):
        if isinstance(child, Section):
            _add_indexed_pages(child)
        elif child[1].endswith("/README.md"):
            title, path = child
            folder = posixpath.dirname(path)
            children = index_children(read_page(f"docs/{path}"), folder)
            section.children[place] = Section(title, [("Overview", path), *children])


def site_path(path: str) -> str:
    """The place on the site of a file of the repository; files that are no pages are copied as text."""
    if path in SITE_PAGES:
        return SITE_PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.txt"


def repository_path(path: str) -> str:
    """The file of the repository that is at a place of the site."""
    for source, place in SITE_PAGES.items():
        if place == path:
            return source
    return f"docs/{path}"


def linked_files(text: str, path: str) -> set[str]:
    """The files of the repository that a page links to."""
    folder = posixpath.dirname(path)
    linked = set()
    for line, in_code in _lines(text):
        if not in_code:
            linked |= {posixpath.normpath(posixpath.join(folder, link[2])) for link in _LINK.finditer(line)}
    return linked


def copied_files() -> list[str]:
    """The files outside ``docs/`` that pages link to and that are no pages themselves."""
    linked: set[str] = set()
    pages = [str(page.relative_to(REPO)) for page in (REPO / "docs").rglob("*.md")]
    for path in [*SITE_PAGES, *pages]:
        linked |= linked_files(read_page(path), path)
    return sorted(path for path in linked if site_path(path).startswith("source/"))


def _lines(text: str) -> list[tuple[str, bool]]:
    """The lines of a text, each with whether it belongs to a block of code."""
    lines = []
    in_code = False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        lines.append((line, in_code or is_fence))
        if is_fence:
            in_code = not in_code
    return lines


def site_markdown(text: str, path: str) -> str:
    """A page of the repository as the site's Markdown: links, titles of code blocks, nested lists and tables."""
    place = site_path(path)
    converted = []
    for line, in_code in _lines(text):
        converted.append(_convert_code_line(line) if in_code else _convert_line(line, path, place))
    return "\n".join(converted) + "\n"


def _convert_code_line(line: str) -> str:
    """An opening fence with the name of a file becomes one with a title."""
    fence = _FENCE.match(line)
    if fence is None:
        return line
    indent, language, name = fence.groups()
    lexer = LEXERS.get(language, language)
    title = "" if name is None else f' title="{name}"'
    return f"{indent}```{lexer}{title}"


def _convert_line(line: str, path: str, place: str) -> str:
    def replace(link: re.Match[str]) -> str:
        opening, target, closing = link.groups()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        relative = posixpath.relpath(site_path(file), posixpath.dirname(place) or ".")
        return f"{opening}{relative}{closing}"

    line = _LINK.sub(replace, line)
    if line.startswith("  * "):
        return f"  {line}"
    if line.startswith("|"):
        return re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), line)
    return line
