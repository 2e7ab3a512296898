"""The grammar of gates: parsed gates and syntax errors."""

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.plan.gates import (
    CoverageGate,
    DeltaGate,
    Gate,
    SliceFilter,
    ValueGate,
    VerdictGate,
    needs_baseline,
    parse_gate,
    parse_gates,
    require_known_names,
)

GOOD = [  # text, what it is without its text, why
    ("recall@5 >= 0.80", ValueGate("", "recall@5", ">=", 0.8), "a value"),
    ("recall@5>=.8", ValueGate("", "recall@5", ">=", 0.8), "without blanks"),
    ("  mrr  >  1e-3 ", ValueGate("", "mrr", ">", 0.001), "an exponent, and blanks around"),
    ("mean_latency[end_to_end] < 2", ValueGate("", "mean_latency[end_to_end]", "<", 2.0), "a key"),
    ("quantile_latency[end_to_end,0.95] <= 2", ValueGate("", "quantile_latency[end_to_end,0.95]", "<=", 2.0), "keys"),
    ("aqwv > -3", ValueGate("", "aqwv", ">", -3.0), "a negative number"),
    ("'my metric' > 0", ValueGate("", "my metric", ">", 0.0), "an alias with a blank, in quotes"),
    ('"delta" > 0', ValueGate("", "delta", ">", 0.0), "an alias that is a word of the grammar"),
    ("low(recall@5) >= 0.8", ValueGate("", "recall@5", ">=", 0.8, "low"), "the lower end"),
    ("high(mrr) < 0.9", ValueGate("", "mrr", "<", 0.9, "high"), "the upper end"),
    ("point(mrr) < 0.9", ValueGate("", "mrr", "<", 0.9, "point"), "the value, explicitly"),
    ("mrr where labels.lang = de >= .7", ValueGate("", "mrr", ">=", 0.7, "point", SliceFilter("labels.lang", "de")), "a group"),
    ("low(mrr where labels.lang='a b') > 0", ValueGate("", "mrr", ">", 0.0, "low", SliceFilter("labels.lang", "a b")), "quoted"),
    ("delta(ndcg@10) > -0.01", DeltaGate("", "ndcg@10", ">", -0.01), "a difference"),
    ("point(delta(ndcg@10)) > -0.01", DeltaGate("", "ndcg@10", ">", -0.01, "point"), "a bare difference"),
    ("low(delta(mrr)) >= 0", DeltaGate("", "mrr", ">=", 0.0, "low"), "an end of a difference"),
    ("better(recall@5)", VerdictGate("", "recall@5", "better"), "a verdict"),
    ("better(recall@5, by=0.02)", VerdictGate("", "recall@5", "better", 0.02), "better by something"),
    ("not worse(token_f1)", VerdictGate("", "token_f1", "not worse"), "no worse"),
    ("not worse ( token_f1 , by = 0.02 )", VerdictGate("", "token_f1", "not worse", 0.02), "no worse by something"),
    ("coverage >= 0.99", CoverageGate("", None, ">=", 0.99), "coverage of all"),
    ("coverage(recall@5) > 0", CoverageGate("", "recall@5", ">", 0.0), "coverage of one"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "want"), [row[:2] for row in GOOD], ids=[row[2] for row in GOOD])
def test_parse_gate(text: str, want: Gate) -> None:
    gate = parse_gate(text)
    assert gate.text == text.strip()
    assert parse_gate(gate.text) == gate
    assert {**_fields(gate), "text": ""} == _fields(want)
    assert type(gate) is type(want)
    assert needs_baseline(gate) == isinstance(want, DeltaGate | VerdictGate)


def _fields(gate: Gate) -> dict[str, object]:
    return {name: getattr(gate, name) for name in type(gate).__slots__}


BAD = [  # text, the character, part of the message, why
    ("recall@5", 9, "expected >=, >, <= or <, found the end", "no condition"),
    ("recall@5 0.8", 10, "expected >=, >, <= or <, found '0.8'", "no sign"),
    ("recall@5 => 0.8", 10, "did you mean >=?", "the sign turned round"),
    ("recall@5 == 1", 10, "hardly ever equal", "equality"),
    ("recall@5 = 1", 10, "hardly ever equal", "equality with one sign"),
    ("recall@5 >=", 12, "expected a number, found the end", "no number"),
    ("recall@5 >= high", 13, "expected a number, found 'high'", "a word for a number"),
    ("recall@5 >= 80%", 13, "write 0.8", "a percentage"),
    ("recall@5 >= nan", 13, "expected a number", "no number at all"),
    ("recall@5 >= 1e999", 13, "finite", "a number without end"),
    ("recall@5 >= 0.8 and mrr > 0.5", 17, "a gate of its own", "two in one"),
    ("recall@5 >= 0.8 # here", 17, "expected nothing after 'recall@5 >= 0.8'", "something behind"),
    ("0.8 <= recall@5", 1, "the metric comes first", "the number first"),
    (">= 0.8", 1, "expected a metric, found '>='", "no metric"),
    ("detla(mrr) > 0", 1, "no function 'detla'; did you mean 'delta'?", "misspelt function"),
    ("mean(mrr) > 0", 1, "the functions are low, high, point, better,", "an unknown function"),
    ("better(low(mrr))", 8, "expected a metric, found 'low'", "a function inside"),
    ("delta() > 0", 7, "expected a metric, found ')'", "nothing inside"),
    ("worse(mrr)", 1, "write not worse(...)", "asking for a worse run"),
    ("not better(mrr)", 5, "expected 'worse'", "not better"),
    ("not worse mrr", 11, "expected '(', found 'mrr'", "no parentheses"),
    ("not worse(token_f1", 19, "needs quotes inside a list in brackets", "cut off by YAML's comma"),
    ("not worse(mrr, 0.02)", 16, "expected 'by=' and a number, found '0.02'", "a margin without its name"),
    ("not worse(mrr, by 0.02)", 19, "expected '=' and a number", "a margin without its sign"),
    ("not worse(mrr, by=-0.02)", 19, "must be at least 0", "a negative margin"),
    ("better(mrr) > 0", 13, "expected nothing after 'better(mrr)'", "a verdict with a number"),
    ("coverage <= 0.9", 10, "expected >= or >", "a largest coverage"),
    ("coverage >= 95", 10, "a proportion from 0 to 1, not 95", "coverage in percent"),
    ("mrr where labels.lang >= 1", 23, "expected '=' and a group", "a slice without a group"),
    ("mrr where >= 1", 11, "a slice such as labels.lang", "where without a slice"),
    ("mrr where labels.lang = >= 1", 25, "the name of a group", "an empty group"),
    ("mean_latency[end < 2", 13, "a '[' without its partner", "a bracket left open"),
    ("'my metric > 2", 1, "a quote that is not closed", "a quote left open"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "position", "expected"), [row[:3] for row in BAD], ids=[row[3] for row in BAD])
def test_parse_errors(text: str, position: int, expected: str) -> None:
    with pytest.raises(BadValueError) as caught:
        parse_gate(text)
    message = str(caught.value)
    assert f"at character {position} " in message
    assert expected in message


def test_empty_or_non_string_gate() -> None:
    with pytest.raises(BadTypeError, match=r"not 0\.8"):
        parse_gate(0.8)  # type: ignore[arg-type]
    with pytest.raises(BadValueError, match="this one is empty"):
        parse_gate(" ")


def test_duplicate_coverage_is_rejected() -> None:
    assert len(parse_gates(["coverage >= 0.9", "coverage(mrr) >= 0.8"])) == 2
    with pytest.raises(BadValueError, match="two gates set the same coverage"):
        parse_gates(["coverage >= 0.9", "coverage > 0.8"])


WORDS = st.sampled_from(
    ["recall@5", "(", ")", ",", "by", "=", ">=", "<", "not", "worse", "better", "delta", "low", "point", "coverage",
     "where", "labels.a", "0.5", "-1", "%", "'", '"', "[", "]", "mean_latency[x]", "\n", "\0", "é", "and"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=12).map(" ".join)))
def test_any_string_is_a_gate_or_a_clear_error(text: str) -> None:
    try:
        gate = parse_gate(text)
    except BadValueError as error:
        message = str(error)
    else:
        assert parse_gate(gate.text) == gate
        return
    assert "\n" not in message


class TestNames:
    KNOWN = ("recall@5", "ndcg@10", "linear", "mean_latency[end_to_end]")

    def test_aliases_are_resolved(self) -> None:
        texts = ["nDCG@10 > 0", "ndcg_cut_10 > 0", "linear > 0", "coverage > 0"]
        assert [one.metric for one in require_known_names(parse_gates(texts), self.KNOWN)] == [
            "ndcg@10", "ndcg@10", "linear", None,
        ]  # fmt: skip

    def test_unknown_name_is_suggested(self) -> None:
        with pytest.raises(BadValueError, match=r"names 'recal@5', .* did you mean 'recall@5'\?"):
            require_known_names([parse_gate("recal@5 > 0")], self.KNOWN)
        with pytest.raises(BadValueError, match="there are recall@5, ndcg@10, linear"):
            require_known_names([parse_gate("better(bleu)")], self.KNOWN)

    def test_unknown_slice_is_rejected(self) -> None:
        gate = parse_gate("recall@5 where labels.lnag = de > 0")
        with pytest.raises(BadValueError, match=r"did you mean 'labels.lang'\?"):
            require_known_names([gate], self.KNOWN, slices=["labels.lang"])
        with pytest.raises(BadValueError, match="there is none"):
            require_known_names([gate], self.KNOWN, slices=[])
        assert require_known_names([gate], self.KNOWN) == [gate]
