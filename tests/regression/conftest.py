"""Golden tests record stores as users get them."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def new_stores() -> None:
    """New stores are made by migrations."""
