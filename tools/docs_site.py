"""What mkdocs calls when it builds the documentation site (``hooks`` in ``mkdocs.yml``).

The navigation comes from ``docs/README.md``, the landing page is the README of the repository, formulas become MathML:
a page needs no script for them, and loads nothing from elsewhere.
"""

import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs_pages import (
    DOCS_MAP,
    SITE_PAGES,
    copied_files,
    navigation,
    read_page,
    repository_path,
    site_markdown,
    site_path,
)

_BLOCK_FORMULA = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
_INLINE_FORMULA = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the map of the documentation."""
    config.nav = navigation()
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in ``docs/``, and the files that pages link to."""
    in_the_way = files.get_file_from_path(DOCS_MAP.removeprefix("docs/"))
    if in_the_way is not None:
        files.remove(in_the_way)
    for path in SITE_PAGES:
        files.append(File.generated(config, site_path(path), content=read_page(path)))
    for path in copied_files():
        files.append(File.generated(config, site_path(path), content=read_page(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert a page of the repository to the Markdown of the site. The landing page has no menu beside it."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    return site_markdown(markdown, repository_path(page.file.src_uri))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace formulas by MathML."""
    html = _BLOCK_FORMULA.sub(lambda formula: f"<p>{mathml(formula[1], 'block')}</p>", html)
    return _INLINE_FORMULA.sub(lambda formula: mathml(formula[1], "inline"), html)


def mathml(formula: str, display: str) -> str:
    """A formula in LaTeX, as HTML has it, as MathML."""
    for entity, character in _ENTITIES.items():
        formula = formula.replace(entity, character)
    # The converter would show the backslash of an underscore in a text.
    formula = re.sub(r"\\text\{[^}]*\}", lambda text: text[0].replace(r"\_", "_"), formula)
    return str(convert(formula.strip(), display=display))
