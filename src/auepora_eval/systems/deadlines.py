"""How much time is left for one call, whatever it consists of."""

import time

__all__ = ["Deadline"]


class Deadline:
    """A moment by which something must be done; without seconds there is none."""

    __slots__ = ("_moment",)

    def __init__(self, seconds: float | None) -> None:
        self._moment = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """The seconds that are left, or ``None`` for no limit; raises ``TimeoutError`` when none are."""
        if self._moment is None:
            return None
        left = self._moment - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left
