"""Draws of samples: random, proportional, reproducible, and recorded with the labels."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.labels import Label
from auepora_eval.labels.draws import SINGLE_STRATUM, LabelDraw, draw_path, draw_samples, read_draws, record_draw
from auepora_eval.labels.sample_weights import weigh_samples


def population(**sizes: int) -> dict[str, str]:
    return {f"{name}{number}": name for name, size in sizes.items() for number in range(size)}


def drawn_by_stratum(draw: LabelDraw) -> dict[str, int]:
    return dict(Counter(one.stratum for one in draw.drawn_items))


ROWS = [  # sizes, n, want, why
    ({"a": 50, "b": 30, "c": 20}, 10, {"a": 5, "b": 3, "c": 2}, "in proportion"),
    ({"a": 98, "b": 1, "c": 1}, 10, {"a": 8, "b": 1, "c": 1}, "everyone at least once"),
    ({"a": 3, "b": 3}, 6, {"a": 3, "b": 3}, "all there are"),
    ({"a": 3, "b": 2}, 100, {"a": 3, "b": 2}, "no more than there are"),
    ({"a": 1, "b": 1, "c": 1}, 3, {"a": 1, "b": 1, "c": 1}, "one each"),
    ({"a": 6, "b": 4}, 5, {"a": 3, "b": 2}, "b comes before the third a, since 4/3 > 6/5"),
]


@pytest.mark.parametrize(("sizes", "n", "want"), [row[:3] for row in ROWS], ids=[row[3] for row in ROWS])
def test_strata_are_drawn_in_proportion(sizes: dict[str, int], n: int, want: dict[str, int]) -> None:
    draw = draw_samples(population(**sizes), n, run="r", stratify="labels.kind")
    assert drawn_by_stratum(draw) == want
    assert draw.population == sum(sizes.values())
    assert len(set(draw.sample_ids)) == len(draw.drawn_items)


def test_fewer_samples_than_strata_is_rejected() -> None:
    with pytest.raises(BadValueError, match=r"2 samples are fewer than the 3 groups of 'labels.kind'"):
        draw_samples(population(a=5, b=5, c=5), 2, run="r", stratify="labels.kind")


def test_all_samples_are_equally_likely() -> None:
    ids = dict.fromkeys([f"q{number}" for number in range(20)], SINGLE_STRATUM)
    counts: Counter[str] = Counter()
    for seed in range(2000):
        counts.update(draw_samples(ids, 5, run="r", seed=seed).sample_ids)
    # 2,000 draws of 5 of 20: 500 times each; the standard deviation is 19.4.
    assert set(counts) == set(ids)
    assert all(abs(count - 500) < 5 * 19.4 for count in counts.values())


SIZES = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 30), min_size=1)


@given(SIZES, st.integers(0, 5), st.integers(1, 100), st.randoms(use_true_random=False))
def test_a_larger_draw_begins_with_the_smaller_one(sizes: dict[str, int], seed: int, n: int, shuffle: object) -> None:
    whole = population(**sizes)
    n = max(n, len(sizes))
    less = draw_samples(whole, n, run="r", seed=seed)
    ids = list(whole)
    shuffle.shuffle(ids)  # type: ignore[attr-defined]
    more = draw_samples({one: whole[one] for one in ids}, n + 7, run="other", seed=seed)
    assert more.drawn_items[: len(less.drawn_items)] == less.drawn_items
    assert len(less.drawn_items) == min(n, len(whole))
    assert set(drawn_by_stratum(less)) == set(sizes)
    assert sum(less.weights().values()) == pytest.approx(len(whole))


def test_another_run_over_the_same_dataset_gets_the_same_samples() -> None:
    whole = population(a=40)
    less = {one: stratum for one, stratum in whole.items() if one != "a3"}  # on which the other system failed
    a = draw_samples(whole, 10, run="one", seed=4).sample_ids
    b = draw_samples(less, 10, run="two", seed=4).sample_ids
    assert [one for one in a if one != "a3"] == b[: len(a) - ("a3" in a)]


def test_weights_of_labelled_samples() -> None:
    draw = draw_samples(population(a=8, b=2), 5, run="r")
    some = [one.sample_id for one in draw.drawn_items if one.stratum == "a"][:2] + [
        one.sample_id for one in draw.drawn_items if one.stratum == "b"
    ]
    assert sorted(draw.weights(some).values()) == [2 / 1, 8 / 2, 8 / 2]


def test_a_draw_is_recorded_and_grows(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    assert read_draws(labels) == {}
    small = draw_samples(population(a=8, b=4), 4, run="r", seed=1, stratify="labels.kind", left_out={"failed": 2})
    large = draw_samples(population(a=8, b=4), 9, run="r", seed=1, stratify="labels.kind", left_out={"failed": 2})
    other = draw_samples(population(a=8, b=4), 4, run="s", seed=2)
    for draw, counts in ((small, small), (large, large), (small, large), (other, other)):
        assert record_draw(labels, draw) == counts
    assert read_draws(labels) == {"r": large, "s": other}
    draw_row = json.loads((tmp_path / "labels.draw.json").read_text())["draws"][0]
    assert draw_row["strata"] == {"a": {"population": 8, "drawn": 6}, "b": {"population": 4, "drawn": 3}}
    assert (draw_row["population"], draw_row["left_out"]) == (12, {"failed": 2})


def test_no_verdict_if_samples_were_added_after_the_first_label(tmp_path: Path) -> None:
    whole = population(a=8)
    small = record_draw(tmp_path / "labels.jsonl", draw_samples(whole, 4, run="r"))
    large = record_draw(tmp_path / "labels.jsonl", draw_samples(whole, 6, run="r"))
    assert large.extends == (small.id,)
    for first, want in ((small, "samples were added to the draw after the first label"), (large, None)):
        labels = [
            Label(one, True, draw=(first if place < 4 else large).id, probability=0.5)
            for place, one in enumerate(large.sample_ids)
        ]
        found = weigh_samples(labels, large.sample_ids, whole, {"r": [large]}, ("r",))
        assert (found.ids, found.basis) == (frozenset(large.sample_ids), "draw")
        reason = found.reason_without_verdict
        assert reason is None if want is None else str(reason).startswith(want)


def test_another_draw_from_the_same_run_is_rejected(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    record_draw(labels, draw_samples(population(a=8), 4, run="r", seed=1))
    before = draw_path(labels).read_bytes()
    with pytest.raises(DataFileError, match="drawn with --seed 1 without --stratify"):
        record_draw(labels, draw_samples(population(a=8), 4, run="r", seed=2))
    with pytest.raises(DataFileError, match="drawn with --seed 1 without --stratify"):
        record_draw(labels, draw_samples(population(a=8), 4, run="r", seed=1, stratify="labels.kind"))
    with pytest.raises(DataFileError, match="other answers now"):
        record_draw(labels, draw_samples(population(b=8), 4, run="r", seed=1))
    assert draw_path(labels).read_bytes() == before


@pytest.mark.parametrize(
    "text", ["", "{}", '{"draws": 3}', '{"draws": [{}]}', "[" * 100_000], ids=lambda text: text[:12]
)
def test_invalid_draw_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.draw.json").write_text(text)
    with pytest.raises(DataFileError, match=r"labels\.draw\.json: is no record of a draw"):
        read_draws(tmp_path / "labels.jsonl")
