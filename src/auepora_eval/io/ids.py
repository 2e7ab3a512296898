"""Ids for texts that come without one."""

from __future__ import annotations

import hashlib

__all__ = ["text_id"]


def text_id(text: str) -> str:
    """A short id that is the same for the same text, on every machine: ``text-`` and 16 hex digits of its SHA-256."""
    return f"text-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
