"""Who may do what: every route for every role, names and their claims, adjudication, and what the journal records."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from starlette.routing import Mount, Route

from auepora_eval.errors import BadValueError
from auepora_eval.io.labels import LabelJournal, read_labels
from auepora_eval.labels.batch import LabelBatch
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.labels.names import check_annotator
from auepora_eval.labels.queue import LabelQueue
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from auepora_eval.ui.security import NAME_COOKIE
from auepora_eval.ui.server import PAGES
from helpers import stored_runs
from helpers.ui_server import Reply, UiClient, UiServer, ui_server

ROLES = ("none", "annotator", "annotator of another batch", "organiser")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore.open(tmp_path_factory.mktemp("access") / "runs.sqlite") as store:
        stored_runs.run(store, "alpha", stored_runs.samples(6), lambda n: f"answer {n}", ["token_f1"])
        yield store


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as server:
        yield server


def new_batch(server: UiServer, **options: Any) -> LabelBatch:
    given = {"purpose": "calibrate", "runs": ("alpha",), "n": 3, "annotators": 2, "metric": "token_f1", **options}
    return create_batch(server.workbench.labels, plan_batch(server.workbench.store, BatchOptions(title="t", **given)))


class Person(UiClient):
    """Somebody with a role for a batch, and a browser of their own."""

    def __init__(self, server: UiServer, role: str, batch: LabelBatch, *, browser: str = "") -> None:
        self.port, self.role, self.name_secret = server.port, role, browser or f"browser-of-{role.split()[0]}"
        access = server.access
        self.cookie, self.csrf_token = "", ""
        if role == "organiser":
            self.cookie, self.csrf_token = f"{access.cookie}={access.session}", access.csrf_token
        elif role != "none":
            self.cookie = "=".join(access.label_cookie(batch.id))
            self.csrf_token = access.csrf_token_for("annotator", f"/label/{batch.id}")

    def item(self, batch: LabelBatch, name: str, **more: Any) -> Reply:
        return self.get(f"/label/{batch.id}/item?{urlencode({'as': name, **more})}")

    def label(self, batch: LabelBatch, name: str, item: int, value: str, **more: Any) -> int:
        fields = {"as": name, "item": item, "value": value, "submission": f"{name} {item} {value}", **more}
        return self.post(f"/label/{batch.id}/label", fields).status


def people(server: UiServer, batch: LabelBatch, *browsers: str) -> list[Person]:
    return [Person(server, "annotator", batch, browser=browser) for browser in browsers]


# --- every route -----------------------------------------------------------------------------------------------------

LABEL_ROUTES = {"", "/item", "/text", "/label", "/skip", "/undo", "/renew"}
"""What an annotator of a batch may ask for, after ``/label/{batch_id}``."""


def all_routes() -> list[tuple[str, str]]:
    """Method and path of every route of every page."""
    found = []
    for page in PAGES:
        for route in page.ROUTES:
            if isinstance(route, Mount):
                continue
            assert isinstance(route, Route)
            found += [(method, route.path) for method in sorted(route.methods or ()) if method != "HEAD"]
    return found


def test_every_route_for_every_role(server: UiServer) -> None:
    """Annotators reach the label pages of their own batch, the organiser reaches everything, others nothing."""
    mine, other = new_batch(server), new_batch(server)
    routes = all_routes()
    assert {path for _, path in routes if path.startswith("/label/")} == {
        f"/label/{{batch_id}}{one}" for one in LABEL_ROUTES
    }
    assert len(routes) > 50
    wrong = []
    for method, path in routes:
        is_endless = "events" in path
        roles = ROLES[:3] if is_endless else ROLES
        target = re.sub(r"\{[a-z_]+(:[a-z]+)?\}", "none", path.replace("{batch_id}", mine.id))
        for role in roles:
            person = Person(server, role, other if "another" in role else mine)
            reply = person.get(target) if method == "GET" else person.post(target)
            is_open = role == "organiser" or (role == "annotator" and path.startswith("/label/"))
            if (reply.status != 403) is not is_open or reply.status >= 500:
                wrong.append((role, method, path, reply.status))
    assert wrong == []


def test_csrf_tokens_belong_to_a_role_and_a_batch(server: UiServer) -> None:
    mine, other = new_batch(server), new_batch(server)
    found: dict[tuple[str, bool, str], bool] = {}
    for owner, batch in (("organiser", mine), ("annotator", mine), ("annotator", other)):
        for role in ("organiser", "annotator"):
            person = Person(server, role, mine, browser=f"browser {len(found)}")
            person.csrf_token = Person(server, owner, batch).csrf_token
            is_saved = person.label(mine, f"name {len(found)}", 1, "right") == 303
            found[owner, batch is mine, role] = is_saved
    assert [key for key, is_saved in found.items() if is_saved] == [
        ("organiser", True, "organiser"),
        ("annotator", True, "annotator"),
    ]


# --- own objects and those of others ---------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["annotator", "organiser"])
def test_a_name_belongs_to_the_browser_that_claimed_it(server: UiServer, role: str) -> None:
    batch = new_batch(server)
    ann, eve = Person(server, "annotator", batch, browser="of ann"), Person(server, role, batch, browser="of eve")
    assert ann.label(batch, "Ann", 1, "right") == 303
    before = batch.journal.read_bytes()
    for name in ("Ann", "  Ann ", "\uff21nn"):
        asked = {"as": name, "item": 2, "submission": f"s{name}", "reason": "why", "value": "wrong"}
        for action in ("label", "skip", "undo", "renew"):
            reply = eve.post(f"/label/{batch.id}/{action}", asked, accept="application/json")
            assert (reply.status, "another browser" in reply.text) == (409, True), (name, action)
        assert eve.get(f"/label/{batch.id}/text?{urlencode({'as': name, 'item': 1, 'part': 'question'})}").status == 409
        page = eve.item(batch, name)
        assert (page.status, 'id="annotator"' in page.text, "Item 2" in page.text) == (400, True, False)
        start = eve.get(f"/label/{batch.id}?{urlencode({'as': name})}")
        assert (start.status, "of 3 labelled" in start.text) == (200, False)
    assert batch.journal.read_bytes() == before
    assert "1 of 3 labelled" in ann.get(f"/label/{batch.id}?as=Ann").text
    assert ann.post(f"/label/{batch.id}/undo", {"as": "Ann"}).status == 303
    assert read_labels(batch.journal) == []


def test_the_organiser_releases_a_name(server: UiServer, auepora: Any) -> None:
    batch = new_batch(server)
    ann, new = people(server, batch, "of ann", "a new one")
    assert ann.label(batch, "Ann", 1, "right") == 303
    assert new.label(batch, "Ann", 2, "right") == 409
    assert new.post(f"/batches/{batch.id}/release", {"name": "Ann"}).status == 403
    organiser = Person(server, "organiser", batch)
    assert f'action="/batches/{batch.id}/release"' in organiser.get(f"/batches/{batch.id}").text
    assert organiser.post(f"/batches/{batch.id}/release", {"name": "Bob"}).status == 400
    assert organiser.post(f"/batches/{batch.id}/release", {"name": "Ann"}).status == 303
    assert new.label(batch, "Ann", 2, "right") == 303
    assert ann.label(batch, "Ann", 3, "right") == 409
    code, out, err = auepora("label", "--release", "Ann", "--labels", str(batch.journal))
    assert (code, out) == (0, ""), err
    assert ann.label(batch, "Ann", 3, "right") == 303
    code, _, err = auepora("label", "--release", "An", "--labels", str(batch.journal))
    assert (code, "no browser has claimed the name 'An'; did you mean 'Ann'?" in err) == (2, True)
    assert len(read_labels(batch.journal)) == 3


def test_the_journal_has_a_hash_and_no_secret(server: UiServer) -> None:
    batch = new_batch(server)
    (ann,) = people(server, batch, "secret-cookie")
    assert ann.label(batch, "Ann", 1, "right") == 303
    text = batch.journal.read_text()
    claims = LabelJournal(batch.journal)
    claims.refresh()
    assert "secret-cookie" not in text
    assert re.fullmatch("[0-9a-f]{64}", claims.claims["Ann"])
    assert text.count('"claim"') == 2, "one event with one hash"


def test_the_cookie_of_a_browser_is_set_once(server: UiServer) -> None:
    batch = new_batch(server)
    cookie = "=".join(server.access.label_cookie(batch.id))
    first = server.request("GET", f"/label/{batch.id}", headers={"Cookie": cookie})
    assert "set-cookie" in first.headers  # the helper adds no secret to the header Cookie
    given = first.headers["set-cookie"]
    assert given.startswith(f"{NAME_COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/label/"} <= set(given.split("; "))
    again = server.request("GET", f"/label/{batch.id}", headers={"Cookie": f"{cookie}; {given.split(';')[0]}"})
    assert "set-cookie" not in again.headers


NAMES = [  # as typed, as stored, why
    ("Ann", "Ann", "plain"),
    ("  Ann   Lee ", "Ann Lee", "spaces"),
    ("Ann\u00a0Lee", "Ann Lee", "a space that does not break"),
    ("Jose\u0301", "José", "an accent of its own"),
    ("\uff21\uff4e\uff4e", "Ann", "full width"),
    ("李雷", "李雷", "another script"),
    ("Ann\u200b", None, "a space without width"),
    ("Ann\u202e", None, "a change of direction"),
    ("An\u00adn", None, "a soft hyphen"),
    ("\u3164", None, "a filler"),
    ("Ann\ufe0f", None, "a variation selector"),
    ("\u2800", None, "an empty Braille pattern"),
    ("Ann\ue000", None, "a private character"),
    ("Ann\nBob", None, "two lines"),
]


@pytest.mark.parametrize(("typed", "stored", "why"), NAMES, ids=[why for *_, why in NAMES])
def test_names_are_normalised(typed: str, stored: str | None, why: str) -> None:
    if stored is not None:
        assert check_annotator(typed) == stored, why
        return
    with pytest.raises(BadValueError, match="no invisible ones"):
        check_annotator(typed)


# --- adjudication ----------------------------------------------------------------------------------------------------


def test_adjudication_is_for_the_organiser_who_is_no_party(server: UiServer) -> None:
    batch = new_batch(server)
    ann, bob = people(server, batch, "of ann", "of bob")
    organiser = Person(server, "organiser", batch)
    assert ann.label(batch, "Ann", 1, "right", comment="comment of Ann") == 303

    # An annotator sees no label of others, whatever the address is, and nothing is stored for them.
    for person in (ann, bob):
        for path in (f"/label/{batch.id}?adjudicate=1", f"/label/{batch.id}/item?as=Bob&item=1&adjudicate=1"):
            reply = person.get(path)
            assert (reply.status, "comment of Ann" in reply.text) == (403, False)
        assert person.label(batch, "Bob", 1, "wrong", adjudicate=1) == 403
    assert all(label.annotator == "Ann" for label in read_labels(batch.journal))

    # The organiser waits for all labels of an item.
    early = organiser.item(batch, "Eve", item=1, adjudicate=1)
    assert (early.status, "comment of Ann" in early.text) == (409, False)
    assert bob.label(batch, "Bob", 1, "wrong", comment="comment of Bob") == 303
    assert bob.label(batch, "Bob", 2, "wrong") == 303
    for item, message in ((2, "the annotators agree"), (3, "the annotators agree")):
        reply = organiser.item(batch, "Eve", item=item, adjudicate=1)
        assert (reply.status, message in reply.text, "comment of" in reply.text) == (409, True, False)

    # A party does not decide, not even with the session of the organiser.
    party = Person(server, "organiser", batch, browser="of ann")
    assert "comment of" not in party.item(batch, "Ann", adjudicate=1).text
    assert party.item(batch, "Ann", item=1, adjudicate=1).status == 409
    assert party.label(batch, "Ann", 1, "right", adjudicate=1) == 409

    shown = organiser.item(batch, "Eve", adjudicate=1)
    assert (shown.status, "comment of Ann" in shown.text, "comment of Bob" in shown.text) == (200, True, True)
    assert organiser.label(batch, "Eve", 1, "right", adjudicate=1) == 303
    (decision,) = [label for label in read_labels(batch.journal) if label.adjudicated]
    assert (decision.annotator, "labels" in (decision.shown or ())) == ("Eve", True)


def test_a_party_does_not_decide_under_another_name(server: UiServer, auepora: Any) -> None:
    """The browser that claimed the name of a party is a party, also when the name was released."""
    batch = new_batch(server)
    ann, bob = people(server, batch, "of ann", "of bob")
    assert (ann.label(batch, "Ann", 1, "right"), bob.label(batch, "Bob", 1, "wrong")) == (303, 303)
    party = Person(server, "organiser", batch, browser="of ann")

    def refused() -> bool:
        shown, listed = party.item(batch, "Eve", item=1, adjudicate=1), party.item(batch, "Eve", adjudicate=1)
        saved = party.label(batch, "Eve", 1, "right", adjudicate=1)
        return (shown.status, "annotator 1" in shown.text + listed.text, saved) == (409, False, 409)

    assert refused()
    assert "this browser has labelled this item" in party.item(batch, "Eve", item=1, adjudicate=1).text
    assert party.post(f"/batches/{batch.id}/release", {"name": "Ann"}).status == 303
    assert refused()
    assert auepora("label", "--release", "Bob", "--labels", str(batch.journal))[0] == 0
    assert Person(server, "organiser", batch, browser="of bob").item(batch, "Fay", item=1, adjudicate=1).status == 409
    neutral = Person(server, "organiser", batch, browser="of eve")
    assert neutral.label(batch, "Eva", 1, "right", adjudicate=1) == 303
    assert [label.annotator for label in read_labels(batch.journal) if label.adjudicated] == ["Eva"]


def test_what_a_browser_saw_is_recorded_for_all_its_names(server: UiServer) -> None:
    batch = new_batch(server, annotators=3)
    ann, bob, cem = people(server, batch, "of ann", "of bob", "of cem")
    organiser = Person(server, "organiser", batch, browser="of eve")
    assert (ann.label(batch, "Ann", 1, "right"), bob.label(batch, "Bob", 1, "wrong")) == (303, 303)
    assert (
        cem.post(f"/label/{batch.id}/skip", {"as": "Cem", "item": 1, "reason": "why", "submission": "c"}).status == 303
    )
    assert organiser.item(batch, "Eve", item=1, adjudicate=1).status == 200
    assert organiser.label(batch, "Fay", 1, "wrong") == 303
    (label,) = [label for label in read_labels(batch.journal) if label.annotator == "Fay"]
    assert "labels" in (label.shown or ())


def test_the_journal_records_what_was_shown(server: UiServer) -> None:
    """A person who saw the labels of others and labels the item all the same has a label that says so."""
    batch = new_batch(server)
    ann, bob = people(server, batch, "of ann", "of bob")
    organiser = Person(server, "organiser", batch)
    assert (ann.label(batch, "Ann", 1, "right"), bob.label(batch, "Bob", 1, "wrong")) == (303, 303)
    for _ in range(2):
        assert organiser.item(batch, "Eve", adjudicate=1).status == 200
    events = [msgspec.json.decode(line) for line in batch.journal.read_bytes().splitlines()]
    shown = [(one["annotator"], one["sample_id"], one["reason"]) for one in events if one.get("event") == "shown"]
    assert shown == [("Eve", batch.items[0].sample_id, "labels")]
    assert organiser.label(batch, "Eve", 1, "wrong") == 303
    assert organiser.label(batch, "Eve", 2, "wrong") == 303
    seen = {(one.annotator, one.sample_id): "labels" in (one.shown or ()) for one in read_labels(batch.journal)}
    assert seen == {
        ("Ann", batch.items[0].sample_id): False,
        ("Bob", batch.items[0].sample_id): False,
        ("Eve", batch.items[0].sample_id): True,
        ("Eve", batch.items[1].sample_id): False,
    }
    assert organiser.item(batch, "Eve", item=1, adjudicate=1).status == 409, "now a party"


def test_a_skip_counts_for_the_labels_that_are_there(server: UiServer) -> None:
    batch = new_batch(server, annotators=3)
    queue = LabelQueue(batch, server.workbench.store)
    queue.submit("Ann", 1, ["right"], submission="a")
    queue.submit("Bob", 1, ["wrong"], submission="b")
    assert (
        queue.disagreements("Eve")[0].problem == "labels of this item are missing; it is adjudicated when all are there"
    )
    queue.skip("Cem", 1, "why", submission="c")
    assert queue.disagreements("Eve")[0].problem is None


def test_old_journals_are_read_and_continued(server: UiServer) -> None:
    """A journal without claims: the first browser that uses a name of it claims the name."""
    batch = new_batch(server)
    queue = LabelQueue(batch, server.workbench.store)
    queue.submit("Ann", 1, ["right"], submission="old")
    assert b"claim" not in batch.journal.read_bytes()
    ann, eve = people(server, batch, "of ann", "of eve")
    assert ann.label(batch, "Ann", 2, "right") == 303
    assert eve.label(batch, "Ann", 3, "right") == 409
    assert [label.annotator for label in read_labels(batch.journal)] == ["Ann", "Ann"]


def test_two_browsers_that_ask_at_once_get_one_claim(server: UiServer, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    batch = new_batch(server)
    persons = people(server, batch, *(f"browser {number}" for number in range(8)))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda person: person.label(batch, "Ann", 1, "right"), persons))
    assert sorted(found) == [303] + [409] * 7
