"""What all results and reports have in common: the same blocks as text, in notebooks and by ``print``."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Block


class BlockReport:
    """A result that is shown as blocks. ``print`` shows them as text."""

    __slots__ = ()

    def blocks(self) -> Sequence[Block]:
        """The blocks, with the conclusion first."""
        raise NotImplementedError

    def to_text(self) -> str:
        """The report for a terminal."""
        from .terminal import blocks_text

        return blocks_text(self.blocks())

    def to_markdown(self) -> str:
        """The report as Markdown."""
        from .markdown import blocks_markdown

        return blocks_markdown(self.blocks())

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        from .html import blocks_html

        return blocks_html(self.blocks())

    def __str__(self) -> str:
        return self.to_text()
