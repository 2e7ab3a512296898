"""Secrets are never written: every text on its way into the store is looked through."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar
from urllib.parse import quote

__all__ = ["HIDDEN", "Scrubber", "column_text"]

HIDDEN = "***"
"""What stands in place of a secret."""

T = TypeVar("T")
_PASSWORD = re.compile(r"(\w://[^\s/@:]*:)[^\s/]+@")


class Scrubber:
    """Finds secrets in texts, values and encoded JSON, also as they are written within JSON or a URL."""

    def __init__(self, secrets: Iterable[str] = (), *, hide_passwords: bool = False) -> None:
        """``hide_passwords`` hides what stands for a password in any URL, secret or not."""
        self._hide_passwords = hide_passwords
        # What is part of the stand-in itself, such as an empty text, cannot be hidden behind it.
        forms = {form for secret in secrets if secret not in HIDDEN for form in _forms(secret)}
        # The longest first: one secret may be part of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._encoded = sorted({_within_json(form).encode() for form in self._forms})

    def in_bytes(self, data: bytes) -> bool:
        """Whether encoded JSON may hold a secret."""
        return bool(self._encoded) and any(form in data for form in self._encoded)

    def text(self, text: str) -> str:
        """A text without secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        return _PASSWORD.sub(rf"\1{HIDDEN}@", text) if self._hide_passwords else text

    def value(self, value: T) -> T:
        """A copy of a value without secrets, whatever is nested in it; the value itself where there are none."""
        return self._value(value) if self._forms or self._hide_passwords else value

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self._value(key): self._value(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            inner = [self._value(one) for one in value]
            return inner if isinstance(value, list) else tuple(inner)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [one.name for one in dataclasses.fields(value) if one.init]
            return dataclasses.replace(value, **{name: self._value(getattr(value, name)) for name in fields})
        return value


def _forms(secret: str) -> set[str]:
    """The secret as it is, as JSON writes it, as JSON within JSON does, and as a URL does."""
    once = {secret, _within_json(secret), json.dumps(secret)[1:-1]}
    return once | {_within_json(form) for form in once} | {quote(secret, safe=""), quote(secret)}


def _within_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def column_text(text: str) -> str:
    """A text as every database can hold it in a column: no NUL, no half of a surrogate pair."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
