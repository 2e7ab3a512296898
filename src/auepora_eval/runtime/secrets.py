"""Secrets: detection by name and format, and redaction in strings, values and errors."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from ..errors import BadValueError

REDACTED = "***"
"""The replacement of a secret."""
ELLIPSIS = "…"
"""The end of a truncated string."""
MIN_SECRET_LENGTH = 4
"""Shorter values are not treated as secrets by default: redacting every ``1`` hides more than it protects."""

PUBLIC_HEADERS = frozenset({"accept", "accept-language", "cache-control", "content-type", "user-agent"})
"""HTTP headers that contain no secret; any other may."""

T = TypeVar("T")
URL_PASSWORD = re.compile(
    r"(?!https?://[^\s/?#@:]*:\d{1,5}[/?#\s])(?P<before>\b\w[\w+.-]{0,20}://[^\s/?#@:]*:)(?P<password>[^\r\n]{1,500})@"
)
"""A password may contain any character, so it reaches to the last ``@`` of the line; an HTTP port is none."""
_URL_PARAMETER = re.compile(r"[?&](?P<name>[^=&#\s]+)=(?P<value>[^&#\s]+)")
_SURROGATEPASS = "surrogatepass"  # a variable that is not UTF-8 contains surrogates

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = {
    "apikey", "authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password", "secret",
    "token",
}  # fmt: skip
_SECRET_KEYS = {"access", "api", "auth", "private", "secret", "signing", "subscription"}
"""``key`` is a secret only after one of these words."""
_TOKENS_OF_TEXT = {"bos", "cls", "end", "eos", "first", "mask", "pad", "sep", "special", "start", "stop", "unk"}
"""Before ``token`` these words mean a token of a language model, not a secret."""
_NAMES_OF_VARIABLES = {"auth", "key", "pass", "pat", "pwd"}
"""Last words of names of environment variables that contain secrets."""
_KNOWN_KEY_FORMATS = re.compile(
    r"(sk|rk)[-_]\S{16,}|gh[opsru]_\S{16,}|github_pat_\S{16,}|glpat-\S{16,}|hf_\S{16,}|xox[a-z]-\S{10,}"
    r"|A[KS]IA[0-9A-Z]{16}|AIza\S{20,}|eyJ\S{20,}"
)
"""Formats of the keys of widely used services."""


def name_words(name: str) -> list[str]:
    """The words of a name in lower case: ``apiKey`` and ``API-KEY`` are ``api`` and ``key``."""
    return [word.lower() for word in _WORDS.findall(name)]


def is_secret_name(name: str) -> bool:
    """Whether the value of this name is likely a secret: ``api_key``, ``Authorization``, ``db-password``."""
    words = name_words(name)
    if not words:
        return False
    before = words[-2] if len(words) > 1 else ""
    if words[-1] == "key":
        return before in _SECRET_KEYS
    return words[-1] in _SECRET_WORDS and before not in _TOKENS_OF_TEXT


def may_name_secret(name: str) -> bool:
    """Whether an environment variable of this name is likely a secret: ``MY_KEY``, ``PGPASSWORD``.

    Accepts more names than ``is_secret_name``, since nothing is rejected because of it.
    """
    *before, last = name_words(name) or [""]
    if last in _NAMES_OF_VARIABLES:
        return True
    return last.endswith(tuple(_SECRET_WORDS)) and not _TOKENS_OF_TEXT.intersection(before[-1:])


def looks_like_secret(text: str) -> bool:
    """Whether a string has the format of a key of a widely used service."""
    return _KNOWN_KEY_FORMATS.fullmatch(text) is not None


def url_secrets(text: str) -> set[str]:
    """Passwords and secret parameters of the URLs in a string, both quoted and unquoted."""
    if "://" not in text:
        return set()
    found = {found_password["password"] for found_password in URL_PASSWORD.finditer(text)}
    found |= {parameter["value"] for parameter in _URL_PARAMETER.finditer(text) if may_name_secret(parameter["name"])}
    return found | {unquote(value) for value in found}


def redact_by_name(value: Any, name: str = "") -> Any:
    """A copy of a nested value with everything redacted whose name is that of a secret."""
    if is_secret_name(name) and value is not None:
        return REDACTED
    if isinstance(value, str):
        return REDACTED if looks_like_secret(value) else value
    if isinstance(value, Mapping):
        return {key: redact_by_name(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact_by_name(inner) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: redact_by_name(getattr(value, field.name), field.name) for field in dataclasses.fields(value)
        }
    return value


class Secrets:
    """Redacts known secrets in strings, values and errors, also where they are escaped for JSON or a URL."""

    def __init__(self, texts: Iterable[str] = (), *, hide_passwords: bool = False) -> None:
        """``hide_passwords`` redacts the password of any URL, known or not."""
        self._hide_passwords = hide_passwords
        # A substring of the replacement, such as an empty string, cannot be redacted.
        forms = {form for text in texts if text not in REDACTED for form in _forms(text)}
        # The longest first: one secret may be part of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._encoded = sorted({_within_json(form).encode(errors=_SURROGATEPASS) for form in self._forms})

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._forms)

    def in_bytes(self, data: bytes) -> bool:
        """Whether JSON in UTF-8 may contain a secret."""
        return any(form in data for form in self._encoded)

    def found_in(self, value: Any) -> bool:
        """Whether a nested value contains a secret."""
        if isinstance(value, str):
            return any(form in value for form in self._forms)
        if isinstance(value, dict):
            return any(self.found_in(key) or self.found_in(inner) for key, inner in value.items())
        if isinstance(value, (list, tuple)):
            return any(map(self.found_in, value))
        if dataclasses.is_dataclass(value):
            return any(self.found_in(getattr(value, field.name)) for field in dataclasses.fields(value))
        return False

    def text(self, text: str) -> str:
        """A string without secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return URL_PASSWORD.sub(rf"\g<before>{REDACTED}@", text) if self._hide_passwords else text

    def message(self, text: str) -> str:
        """A message without secrets, and without the beginning of one where it was truncated."""
        text = self.text(text)
        for form in self._forms if ELLIPSIS in text else ():
            if form[:MIN_SECRET_LENGTH] in text:
                for length in range(len(form) - 1, MIN_SECRET_LENGTH - 1, -1):
                    text = text.replace(form[:length] + ELLIPSIS, REDACTED + ELLIPSIS)
        return text

    def value(self, value: T, *, but: Collection[str] = ()) -> T:
        """A copy of a nested value without secrets; the value itself where there are none.

        Keys or fields with a name in ``but`` are not changed.
        """
        return self._value(value, but) if self._forms or self._hide_passwords else value

    def redact_error(self, error: BaseException) -> None:
        """Redact secrets in the message and attributes of an error, and of its causes."""
        stack: list[BaseException | None] = [error]
        seen: set[int] = set()
        while stack:
            current = stack.pop()
            if current is None or id(current) in seen:
                continue
            seen.add(id(current))
            stack += [current.__cause__, current.__context__]
            current.args = tuple(
                self.message(value) if isinstance(value, str) else self.value(value) for value in current.args
            )
            for name, value in vars(current).items():
                if isinstance(value, (str, list)):  # built from the message, or notes
                    vars(current)[name] = self.message(value) if isinstance(value, str) else self.value(value)

    @contextmanager
    def redact_errors(self) -> Iterator[None]:
        """Redact secrets in every error that leaves the block."""
        try:
            yield
        except Exception as error:
            if self:
                self.redact_error(error)
            raise

    def _value(self, value: Any, but: Collection[str]) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self._value(key, but): inner if key in but else self._value(inner, but) for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            inner = [self._value(member, but) for member in value]
            return inner if isinstance(value, list) else tuple(inner)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [field.name for field in dataclasses.fields(value) if field.init and field.name not in but]
            return dataclasses.replace(value, **{name: self._value(getattr(value, name), but) for name in fields})
        return value


def reject_secrets(samples: Iterable[object], secrets: Secrets) -> None:
    """Raise where a sample contains a secret: it must not be stored, and redacting it would change scores."""
    for position, sample in enumerate(samples if secrets else (), 1):
        if secrets.found_in(sample):
            raise BadValueError(
                f"sample {position} of the dataset contains a secret of the plan (the value of a variable), "
                "which must not be stored; take it out of the data or change it; if it is not a secret, write it out "
                "in the plan"
            )


def _forms(secret: str) -> set[str]:
    """The secret as it is, and escaped for JSON, for JSON within JSON, and for a URL."""
    once = {secret, _within_json(secret), json.dumps(secret)[1:-1]}
    return (
        once
        | {_within_json(form) for form in once}
        | {quote(secret, safe, errors=_SURROGATEPASS) for safe in ("", "/")}
    )


def _within_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
