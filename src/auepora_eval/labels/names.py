"""Names and texts of annotators: what can be stored, and who may use a name in a batch."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from pathlib import Path
from unicodedata import category, normalize

from ..errors import BadValueError, ConflictError, did_you_mean
from ..io.jsonl import current_time
from ..io.labels import LabelEvent, LabelJournal

MAX_NAME = 100
MAX_TEXT = 10_000
"""The number of characters of a comment, or of the reason of a skip."""
_REFUSED = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that a name must not contain: control characters, surrogates, ends of lines, and what is
invisible. Two names that look the same would be two annotators."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Invisible characters of other categories: variation selectors, fillers, the empty Braille pattern."""


def check_annotator(name: str) -> str:
    """The name of an annotator, normalised; ``BadValueError`` for one that cannot be stored.

    Another keyboard may write é as two characters, or a letter in full width.
    """
    words = normalize("NFKC", name).strip().split(" ")
    return check_name(" ".join(word for word in words if word), "annotator")


def check_name(text: str, field: str) -> str:
    """A text of one line that can be stored; ``BadValueError`` for another one."""
    if not text or len(text) > MAX_NAME or any(_is_refused(letter) for letter in text):
        raise BadValueError(f"{field}: 1 to {MAX_NAME} characters on one line are possible, and no invisible ones")
    return text


def _is_refused(letter: str) -> bool:
    return category(letter) in _REFUSED or _INVISIBLE.match(letter) is not None


def check_text(text: str, field: str) -> None:
    """Raise ``BadValueError`` for a comment or reason that cannot be stored."""
    if len(text) > MAX_TEXT:
        raise BadValueError(f"{field}: {len(text):,} characters; at most {MAX_TEXT:,} are possible")
    if any(category(character) == "Cs" for character in text):
        raise BadValueError(f"{field}: it contains half of a surrogate pair, which cannot be stored")


# --- names in use: they belong to the browser that claimed them, until the organiser releases them ------------------

TAKEN = (
    "the name is in use in another browser: take another name, or ask the organiser of the batch to release this one"
)


class NameClaims:
    """The names of a batch that browsers have claimed. The journal has hashes of their secrets."""

    def __init__(self, journal: LabelJournal, batch_id: str) -> None:
        self._journal, self._batch_id = journal, batch_id

    def is_free_for(self, name: str, secret: str) -> bool:
        """Whether a browser may use a name: nobody has claimed it, or this browser has."""
        known = self._journal.claims.get(name)
        return known is None or hmac.compare_digest(known, self._hash(name, secret))

    def require(self, name: str, secret: str) -> None:
        """Claim a name for a browser; ``ConflictError`` where it is that of another one."""

        def check(_: LabelJournal) -> None:
            if not self.is_free_for(name, secret):
                raise ConflictError(TAKEN)

        self._journal.refresh()
        if self._journal.closed is not None or name in self._journal.claims:
            check(self._journal)
            return
        claim = LabelEvent("claim", by=name, at=current_time(), claim=self._hash(name, secret))
        self._journal.append(claim, check=check)

    def names_of(self, secret: str) -> set[str]:
        """The names that a browser has claimed, those that were released included."""
        return {name for name, hashes in list(self._journal.past_claims.items()) if self._hash(name, secret) in hashes}

    def _hash(self, name: str, secret: str) -> str:
        # With batch and name, so that hashes of one browser do not show which names belong together.
        return sha256("\0".join([self._batch_id, name, secret]).encode()).hexdigest()


def release_name(path: str | Path, name: str) -> None:
    """Let another browser claim a name of a file of labels; ``BadValueError`` where nobody has claimed it."""
    journal = LabelJournal(path)
    journal.refresh()
    if name not in journal.claims:
        raise BadValueError(f"no browser has claimed the name {name!r:.80}{did_you_mean(name, journal.claims)}")
    journal.append(LabelEvent("release", by=name, at=current_time()))
