"""Ids derived from texts."""

from __future__ import annotations

import hashlib

__all__ = ["text_id"]


def text_id(text: str) -> str:
    """Return an id of 16 hex digits from the SHA-256 of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
