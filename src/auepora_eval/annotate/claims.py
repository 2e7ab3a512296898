"""Who may use a name in a batch: the browser that claimed it, until the organiser releases it."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

from ..errors import BadValueError, ConflictError, did_you_mean
from ..io.labels import LabelEvent, LabelJournal, current_time

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
