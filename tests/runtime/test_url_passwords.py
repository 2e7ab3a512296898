"""A password in an address is never shown, whatever characters it has: everything before the last @ is hidden."""

import re

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import BadValueError, StoreError
from auepora_eval.models.embedders import OpenAIEmbedder
from auepora_eval.net.client import parse_address, without_userinfo
from auepora_eval.plan.source import _has_password
from auepora_eval.runtime.secrets import Secrets, url_secrets
from auepora_eval.store import RunStore

ROWS = [  # text, shown, why
    ("postgresql://me:hunter2@host/db", "postgresql://me:***@host/db", "a plain one"),
    ("postgresql://me:hun/ter@host/db", "postgresql://me:***@host/db", "a slash"),
    ("postgresql://me:hun#ter@host/db", "postgresql://me:***@host/db", "a hash"),
    ("postgresql://me:hun ter@host/db", "postgresql://me:***@host/db", "a blank"),
    ("postgresql://me:hun?ter@host/db", "postgresql://me:***@host/db", "a question mark"),
    ("postgresql://me:hu@n/ter@host/db", "postgresql://me:***@host/db", "an @ before a slash"),
    ("postgresql://me:12/ter@host/db", "postgresql://me:***@host/db", "what could be a port of a web address"),
    ("no answer from http://me:a/b@h:80/x", "no answer from http://me:***@h:80/x", "within a message"),
    ("http://h:80/@x", "http://h:80/@x", "a port and a path"),
    ("http://h:8000 is down, ask me@x", "http://h:8000 is down, ask me@x", "a port and a mail address"),
    ("https://api.host/run/@cf/model", "https://api.host/run/@cf/model", "no password"),
    ("a@b: c", "a@b: c", "no address"),
]


@pytest.mark.parametrize(("text", "shown", "why"), ROWS, ids=[why for *_, why in ROWS])
def test_shown_text(text: str, shown: str, why: str) -> None:
    assert Secrets(hide_passwords=True).text(text) == shown, why
    assert _has_password(text) is (text != shown)


# Not what reads as a port: http://me:80/x@host is the address of a host "me".
PASSWORDS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=6, max_size=30).filter(
    lambda text: not re.match(r"\d{0,5}([/?#\s]|$)", text)
)
MIXED = st.lists(
    st.sampled_from(["/", "#", "?", " ", "@", ":", "[", "]", "%", "{", "//", "://", "secret", "x1", "é"]), min_size=3
).map("".join)
ANY_PASSWORD = (PASSWORDS | MIXED.map("pw".__add__)).map(lambda text: f"{text}Geheim")


def _assert_hidden(password: str, *shown: str) -> None:
    """Neither the password nor its last part is in any of the texts, however they escape it."""
    for text in shown:
        assert password not in text
        assert "Geheim" not in text, text


def _parsed(url: str) -> str:
    """How an address is shown, or why it is none."""
    try:
        return parse_address(url).shown
    except BadValueError as error:
        return f"{error} {error!r} {error.__cause__!r}"


@given(ANY_PASSWORD)
def test_password_of_an_endpoint_is_hidden(password: str) -> None:
    url = f"https://me:{password}@host.example/v1"
    shown = Secrets(hide_passwords=True).text(f"no answer from {url}: timeout")
    _assert_hidden(password, shown, without_userinfo(url))
    assert password in url_secrets(url)
    _assert_hidden(password, _parsed(url))
    with pytest.raises(BadValueError, match="base_url") as raised:
        OpenAIEmbedder("m", base_url=f"ftp://me:{password}@host.example/v1")
    _assert_hidden(password, str(raised.value))


@given(ANY_PASSWORD)
def test_password_of_a_store_is_hidden(password: str) -> None:
    url = f"postgresql://me:{password}@127.0.0.1:1/x?connect_timeout=1"
    with pytest.raises(StoreError) as raised:
        RunStore.open(url)
    error: BaseException | None = raised.value
    while error is not None:
        _assert_hidden(password, str(error), repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_many_addresses_without_an_end_take_no_time() -> None:
    """A text without a last @ is not searched again for each address in it."""
    text = "a@b " + "a://b:" * 5_000
    assert Secrets(hide_passwords=True).text(text) == text
