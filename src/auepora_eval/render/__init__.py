"""Rendering of results: blocks, tables, Markdown, HTML, charts and terminal text. It reads no store."""
