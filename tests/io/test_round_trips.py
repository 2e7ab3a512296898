"""Conversion between every pair of formats and back: fields that both support survive."""

from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import BadValueError, MissingDependencyError
from auepora_eval.io.convert import convert_files
from auepora_eval.io.formats import Format, Role, formats
from auepora_eval.io.problems import Problems
from auepora_eval.io.validate import validate_files
from helpers.requirements import missing

# What formats have in common is plain: ids without blanks, levels of 1, scores that go down.
SAMPLES = [
    EvaluationSample(
        f"q{number}",
        f"What is the {number}. question?",
        [Document(f"d{number}", f"Text {number}."), Document(f"e{number}", f"Another text {number}.")],
        [Document(f"f{number}", f"A third text {number}.")],
        Response(f"answer {number}"),
        {"lang": "de"},
        {"source": "tests"},
        [f"answer {number}", f"the answer {number}"],
        [{"role": "user", "content": "Hello"}],
        "one",
        [[f"d{number}", f"e{number}"]],
    )
    for number in range(1, 4)
]
OUTPUTS = {
    sample.sample_id: SystemOutputs(
        [
            RetrievedDocument(document, 1.0 / rank, rank)
            for rank, document in enumerate((sample.relevant_docs or []) + (sample.candidate_docs or []), start=1)
        ],
        Response(f"It is {number}."),
        {"end_to_end": 0.5},
        {"note": "x"},
        None,
        False,
        [f"d{number}"],
        [{"query": "hop"}],
        {"tokens": 3},
    )
    for number, sample in enumerate(SAMPLES, start=1)
}


def supports_round_trip(one: Format, role: Role) -> bool:
    if role == "samples":
        return one.read_samples is not None and (one.write_samples is not None or one.write_both is not None)
    return one.read_outputs is not None and (one.write_outputs is not None or one.write_both is not None)


def write_file(
    one: Format, path: Path, role: Role, samples: list[EvaluationSample], outputs: dict[str, SystemOutputs]
) -> None:
    if role == "samples" and one.write_samples is not None:
        one.write_samples(samples, path)
    elif role == "outputs" and one.write_outputs is not None:
        one.write_outputs(outputs.items(), path)
    else:
        assert one.write_both is not None
        one.write_both([(sample, outputs.get(sample.sample_id)) for sample in samples], path)


def read(one: Format, path: Path, role: Role) -> dict[str, Any]:
    if role == "samples":
        assert one.read_samples is not None
        return {found.sample.sample_id: found.sample for found in one.read_samples(path, Problems())}
    assert one.read_outputs is not None
    return {found.sample_id: found.output for found in one.read_outputs(path, Problems())}


def round_trip(one: Format, path: Path, role: Role, records: dict[str, Any]) -> dict[str, Any]:
    """The records after they were written in a format and read again; the other role is filled up from above."""
    samples = list(records.values()) if role == "samples" else SAMPLES
    outputs = records if role == "outputs" else OUTPUTS
    try:
        write_file(one, path, role, samples, outputs)
    except MissingDependencyError as error:
        missing(str(error))
    except BadValueError as error:
        pytest.skip(f"the other format cannot be stored: {error}")
    return read(one, path, role)


def supported_fields(one: Format, role: Role) -> set[str]:
    names = {field.name for field in fields(EvaluationSample if role == "samples" else SystemOutputs)}
    can_hold = one.sample_fields if role == "samples" else one.output_fields
    return names if can_hold is None else names & set(can_hold)


ROLES: tuple[Role, Role] = ("samples", "outputs")
PAIRS = [
    pytest.param(first, second, role, id=f"{role}: {first.name} to {second.name}")
    for role in ROLES
    for first, second in product(formats().values(), repeat=2)
    if supports_round_trip(first, role) and supports_round_trip(second, role)
]


@pytest.mark.parametrize(("first", "second", "role"), PAIRS)
def test_supported_fields_survive(tmp_path: Path, first: Format, second: Format, role: Role) -> None:
    records: dict[str, Any] = {sample.sample_id: sample for sample in SAMPLES} if role == "samples" else OUTPUTS
    there = round_trip(second, tmp_path / "b", role, round_trip(first, tmp_path / "a", role, records))
    assert list(there) == list(records)
    again = round_trip(second, tmp_path / "d", role, round_trip(first, tmp_path / "c", role, there))
    common = supported_fields(first, role) & supported_fields(second, role)
    assert common, "formats for the same role have something in common"
    for sample_id, record in there.items():
        for name in common:
            was, arrived = getattr(records[sample_id], name), getattr(record, name)
            assert bool(was) <= bool(arrived), f"{name} was lost on the way"
            assert getattr(again[sample_id], name) == arrived, f"{name} changes with every passage"


@pytest.mark.parametrize(("first", "second", "role"), PAIRS)
def test_command_reports_dropped_fields(tmp_path: Path, first: Format, second: Format, role: Role) -> None:
    if role == "outputs" and (first.write_outputs is None or second.write_outputs is None):
        pytest.skip("outputs are stored with samples")
    records: dict[str, Any] = {sample.sample_id: sample for sample in SAMPLES} if role == "samples" else OUTPUTS
    start = round_trip(first, tmp_path / "a", role, records)
    try:
        done = convert_files(tmp_path / "a", tmp_path / "b", from_format=first.name, to_format=second.name, role=role)
    except BadValueError as error:
        pytest.skip(f"cannot be stored: {error}")
    arrived = read(second, tmp_path / "b", role)
    assert list(arrived) == list(start)
    assert done.counts[role] == len(start)
    dropped = {one.field for one in done.dropped if one.role == role}
    assert not dropped & supported_fields(second, role)
    for sample_id, record in start.items():
        for name in {field.name for field in fields(record)} - dropped - {"sample_id"}:
            if getattr(record, name) and name in supported_fields(second, role):
                assert getattr(arrived[sample_id], name), f"{name} was lost without a report"


@pytest.mark.parametrize("one", [pytest.param(one, id=one.name) for one in formats().values()])
def test_written_files_are_valid(tmp_path: Path, one: Format) -> None:
    if not supports_round_trip(one, "samples"):
        pytest.skip("it does not write samples")
    written_samples = round_trip(one, tmp_path / "a", "samples", {sample.sample_id: sample for sample in SAMPLES})
    checked = validate_files(tmp_path / "a", dataset_format=one.name)
    assert list(map(str, checked.problems)) == []
    assert checked.samples["samples"] == len(written_samples)
    if supports_round_trip(one, "outputs"):
        round_trip(one, tmp_path / "b", "outputs", OUTPUTS)
        checked = validate_files(tmp_path / "a", tmp_path / "b", dataset_format=one.name, outputs_format=one.name)
        assert list(map(str, checked.problems)) == []
        assert checked.outputs is not None
        assert checked.outputs["outputs"] == len(OUTPUTS)


# --- our own format stores everything ---------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=8)
ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
free = st.dictionaries(texts, values, max_size=3)
documents = st.builds(Document, ids, texts, free, st.none() | texts, st.none() | st.just((0, 3)))
answers = st.builds(Response, texts, st.none() | free, free)
samples = st.builds(
    EvaluationSample, ids, texts, st.none() | st.lists(documents, max_size=2), st.none() | st.lists(documents, max_size=2),
    st.none() | answers, free, free, st.lists(texts, max_size=2), st.lists(free, max_size=2), st.none() | texts,
    st.lists(st.lists(ids, max_size=2), max_size=2),
)  # fmt: skip
outputs = st.builds(
    SystemOutputs,
    st.lists(st.builds(RetrievedDocument, documents, st.none() | st.floats(-9, 9), st.integers(1, 9)), max_size=3),
    st.none() | answers, st.dictionaries(texts, st.floats(0, 9), max_size=2), free, st.none() | texts,
    st.none() | st.booleans(), st.none() | st.lists(texts, max_size=2), st.lists(free, max_size=2), free, st.integers(0, 3),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(samples, min_size=1, max_size=3, unique_by=lambda one: one.sample_id),
    st.dictionaries(ids, outputs, min_size=1, max_size=3),
)
def test_conversion_to_the_same_format(
    tmp_path_factory: pytest.TempPathFactory, asked: list[EvaluationSample], given_back: dict[str, SystemOutputs]
) -> None:
    folder, own = tmp_path_factory.getbasetemp(), formats()["jsonl"]
    roles: list[tuple[Role, dict[str, Any]]] = [
        ("samples", {one.sample_id: one for one in asked}),
        ("outputs", given_back),
    ]
    for role, records in roles:
        write_file(own, folder / "rt-a.jsonl", role, asked, given_back)
        assert convert_files(folder / "rt-a.jsonl", folder / "rt-b.jsonl.zst").dropped == []
        assert list(read(own, folder / "rt-b.jsonl.zst", role).items()) == list(records.items())
