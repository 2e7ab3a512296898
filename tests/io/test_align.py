"""Outputs are put in sample order, and what has no partner is listed."""

import pytest

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError
from auepora_eval.io.join import AlignedOutputs, align_outputs


def samples(ids: str) -> list[EvaluationSample]:
    return [EvaluationSample(one, query="?") for one in ids]


def outputs(ids: str) -> dict[str, SystemOutputs]:
    return {one: SystemOutputs(retrieved=[], extra={"id": one}) for one in ids}


ROWS = [  # samples, outputs, outputs in sample order (. = None), missing, unknown, why
    ("abc", "cab", "abc", "", "", "all meet, in sample order"),
    ("abc", "b", ".b.", "ac", "", "missing ones are None"),
    ("b", "cba", "b", "", "ca", "unknown ones are listed in their own order"),
    ("ab", "", "..", "ab", "", "no outputs at all"),
    ("", "ab", "", "", "ab", "no samples at all"),
    ("", "", "", "", "", "nothing"),
]


@pytest.mark.parametrize(("have", "given", "want", "missing", "unknown", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_alignment(have: str, given: str, want: str, missing: str, unknown: str, why: str) -> None:
    by_id = outputs(given)
    aligned = align_outputs(samples(have), by_id)
    assert aligned == AlignedOutputs([by_id.get(one) for one in want], list(missing), list(unknown)), why


def test_no_common_id() -> None:
    with pytest.raises(BadValueError) as caught:
        align_outputs(samples("ab"), outputs("xy"))
    assert str(caught.value) == (
        "no sample and output share an id: the first sample is 'a', the first output 'x'; do the two belong together?"
    )
    assert isinstance(caught.value, AueporaError)
