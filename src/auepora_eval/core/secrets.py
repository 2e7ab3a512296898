"""Secrets: which names they go by, and texts, values and errors without them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar
from urllib.parse import quote

__all__ = ["CUT", "HIDDEN", "SHORTEST", "Secrets", "is_secret_name", "name_words"]

HIDDEN = "***"
"""What stands in place of a secret."""
CUT = "…"
"""The end of a text that was cut short."""
SHORTEST = 4
"""What is shorter is not taken for a secret unless somebody says so: hiding every ``1`` hides more than it protects."""

T = TypeVar("T")
_PASSWORD = re.compile(r"(\w://[^\s/@:]*:)[^\s/]+@")
_HALVES = "surrogatepass"  # a variable that is no UTF-8 has halves of characters in it

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = {
    "apikey", "authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password", "secret",
    "token",
}  # fmt: skip
_SECRET_KEYS = {"access", "api", "auth", "private", "secret", "signing", "subscription"}
"""``key`` alone may be anything; after one of these it is a secret."""
_TOKENS_OF_TEXT = {"bos", "cls", "end", "eos", "mask", "pad", "sep", "special", "start", "stop", "unk"}
"""Before ``token`` these mean a piece of text that a model knows, and no secret."""


def name_words(name: str) -> list[str]:
    """The words a name is made of, in lower case: ``apiKey`` and ``API-KEY`` are ``api`` and ``key``."""
    return [word.lower() for word in _WORDS.findall(name)]


def is_secret_name(name: str) -> bool:
    """Whether what goes by this name is likely a secret: ``api_key``, ``Authorization``, ``db-password``."""
    words = name_words(name)
    if not words:
        return False
    before = words[-2] if len(words) > 1 else ""
    if words[-1] == "key":
        return before in _SECRET_KEYS
    return words[-1] in _SECRET_WORDS and before not in _TOKENS_OF_TEXT


class Secrets:
    """Texts that are neither shown nor stored, whether they stand as they are or as JSON or a URL writes them."""

    def __init__(self, texts: Iterable[str] = (), *, hide_passwords: bool = False) -> None:
        """``hide_passwords`` hides what stands for a password in any URL, secret or not."""
        self._hide_passwords = hide_passwords
        # What is part of the stand-in itself, such as an empty text, cannot be hidden behind it.
        forms = {form for text in texts if text not in HIDDEN for form in _forms(text)}
        # The longest first: one secret may be part of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._encoded = sorted({_encoded(form) for form in self._forms})
        self._beginnings = sorted({_encoded(form[:SHORTEST]) for form in self._forms})

    def in_bytes(self, data: bytes) -> bool:
        """Whether JSON in UTF-8 may hold a secret, or the beginning of one where a text was cut short."""
        if not self._encoded:
            return False
        if any(form in data for form in self._encoded):
            return True
        return CUT.encode() in data and any(form in data for form in self._beginnings)

    def text(self, text: str) -> str:
        """A text without secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        if CUT in text:
            text = self._without_beginnings(text)
        return _PASSWORD.sub(rf"\1{HIDDEN}@", text) if self._hide_passwords else text

    def value(self, value: T) -> T:
        """A copy of a value without secrets, whatever is nested in it; the value itself where there are none."""
        return self._value(value) if self._forms or self._hide_passwords else value

    def _without_beginnings(self, text: str) -> str:
        for form in self._forms:
            if form[:SHORTEST] in text:
                for length in range(len(form) - 1, SHORTEST - 1, -1):
                    text = text.replace(form[:length] + CUT, HIDDEN + CUT)
        return text

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
    return once | {_within_json(form) for form in once} | {quote(secret, safe, errors=_HALVES) for safe in ("", "/")}


def _encoded(text: str) -> bytes:
    return _within_json(text).encode(errors=_HALVES)


def _within_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
