"""Ids for texts that come without one."""

from __future__ import annotations

import hashlib

__all__ = ["text_id"]


def text_id(text: str) -> str:
    """16 hex digits that are the same for the same text, in every file and on every machine (from its SHA-256)."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
