"""Parsing of judge replies: unambiguous replies are parsed, others rejected with a reason."""

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from jsonschema import Draft202012Validator

from auepora_eval.errors import JudgeError
from auepora_eval.judge.parse import MAX_ANSWER_CHARS, MAX_KEPT_CHARS, parse_answer, read_answer

SCORE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "rationale": {"type": "string"},
    },
    "required": ["score"],
}
VERDICTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"claim": {"type": "string"}, "verdict": {"enum": ["supported", "not_supported"]}},
                "required": ["claim", "verdict"],
            },
        }
    },
    "required": ["verdicts"],
}
PREFERENCE: dict[str, Any] = {
    "type": "object",
    "properties": {"preferred": {"type": "string", "enum": ["A", "B", "tie"]}},
    "required": ["preferred"],
}
SHARE: dict[str, Any] = {
    "type": "object",
    "properties": {"share": {"type": "number", "minimum": 0, "maximum": 1}, "sure": {"type": "boolean"}},
    "required": ["share"],
}
LEVELS: dict[str, Any] = {"type": "object", "properties": {"level": {"enum": [1, 2, 3]}}, "required": ["level"]}
MAYBE: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": ["integer", "null"]}},
    "required": ["score"],
}

READ = [  # text, schema, want, why
    ('{"score": 4}', SCORE, {"score": 4}, "JSON as it is"),
    ('\ufeff {"score": 4}\n', SCORE, {"score": 4}, "marks and blanks around it"),
    ('```json\n{"score": 4}\n```', SCORE, {"score": 4}, "in a fence"),
    ('```\n{"score": 4}\n```\nHope it helps!', SCORE, {"score": 4}, "in a fence with prose behind"),
    ('My judgement: {"score": 4}. Thanks.', SCORE, {"score": 4}, "prose around it"),
    ('It says {x} and {"a": 1}: {"score": 4}', SCORE, {"score": 4}, "the only object that has what is required"),
    ("{'score': 4, 'rationale': 'fine'}", SCORE, {"score": 4, "rationale": "fine"}, "single quotes"),
    ("{'score': 4, 'rationale': \"it's\"}", SCORE, {"score": 4, "rationale": "it's"}, "both kinds of quotes"),
    ("{'score': 4, 'rationale': None}", SCORE, {"score": 4}, "nothing, in Python, for what is optional"),
    ('{"score": 4, "rationale": null}', SCORE, {"score": 4}, "nothing for what is optional"),
    ("{'share': 0.5, 'sure': True}", SHARE, {"share": 0.5, "sure": True}, "Python's constants"),
    ('{"share": 0.5, "sure": "TRUE"}', SHARE, {"share": 0.5, "sure": True}, "a constant in quotes"),
    ('{"score": 4,}', SCORE, {"score": 4}, "a trailing comma"),
    ("{“score”: 4}", SCORE, {"score": 4}, "smart quotes"),
    ("{„score“: 4}", SCORE, {"score": 4}, "German quotes"),
    ('{“score”: 4, “rationale”: “a "b" c”}', SCORE, {"score": 4, "rationale": 'a "b" c'}, "quotes within others"),
    ("{score: 4}", SCORE, {"score": 4}, "a key without quotes"),
    ('{"score": 4, "rationale": "a\nb"}', SCORE, {"score": 4, "rationale": "a\nb"}, "a line break in a text"),
    (r'{"score": 4, "rationale": "\"a\" \u00e4 \d"}', SCORE, {"score": 4, "rationale": '"a" ä \\d'}, "escapes"),
    (r'{"score": 4, "rationale": "\ud83d\ude00\ud800"}', SCORE, {"score": 4, "rationale": "😀\ufffd"}, "half a character"),
    ("4", SCORE, {"score": 4}, "a bare number"),
    ("4.", SCORE, {"score": 4}, "a bare number and a full stop"),
    ("**4**", SCORE, {"score": 4}, "a bold number"),
    ("```\n4\n```", SCORE, {"score": 4}, "a fenced number"),
    ("4/5", SCORE, {"score": 4}, "a number of the best there is"),
    ("4 out of 5", SCORE, {"score": 4}, "the same in words"),
    ("Score: 4/5", SCORE, {"score": 4}, "a number with its name"),
    ("The final score is 4.", SCORE, {"score": 4}, "a number in a sentence"),
    ("**Score:** 4\n\nIt cites 3 of 7 texts.", SCORE, {"score": 4}, "a named number above prose with other numbers"),
    ("Well done.\nScore: 4\nScore = 4", SCORE, {"score": 4}, "the same number twice"),
    ("share: 0.25", SHARE, {"share": 0.25}, "the name of the property"),
    ('{"score": "4"}', SCORE, {"score": 4}, "a number in quotes"),
    ('{"score": "4/5"}', SCORE, {"score": 4}, "a number of the best in quotes"),
    ('{"score": 4.0}', SCORE, {"score": 4}, "a whole number with a point"),
    ('{"share": 1e-1}', SHARE, {"share": 0.1}, "a number with an exponent"),
    ('{"Score": 4, "confidence": 1}', SCORE, {"score": 4}, "another case and an extra key"),
    ('<think>{"score": 1}? No.</think>\n{"score": 4}', SCORE, {"score": 4}, "a thought before the answer"),
    ('so {"score": 1}?</think>{"score": 4}', SCORE, {"score": 4}, "a thought whose beginning was in the prompt"),
    ("<think>1? 2?</think>4", SCORE, {"score": 4}, "a thought before a bare number"),
    ('{"score": 4, "rationale": "</think> {\\"score\\": 1}"}', SCORE, {"score": 4, "rationale": '</think> {"score": 1}'}, "tags quoted in the answer"),
    ('{"score": 4} and so {"score": 4}', SCORE, {"score": 4}, "the same answer twice"),
    ('As asked, {"score": <1-5>}: {"score": 4}', SCORE, {"score": 4}, "the form quoted before it is filled in"),
    ('[{"score": 4}]', SCORE, {"score": 4}, "a list of one"),
    ("A", PREFERENCE, {"preferred": "A"}, "a bare label"),
    ("Preferred: **b**", PREFERENCE, {"preferred": "B"}, "a named label in another case"),
    ('{"preferred": "Tie."}', PREFERENCE, {"preferred": "tie"}, "a label with a full stop"),
    ('{"level": "2"}', LEVELS, {"level": 2}, "a label that is a number, in quotes"),
    ('{"score": null}', MAYBE, {"score": None}, "nothing where it is allowed"),
    ('{"score": "3"}', MAYBE, {"score": 3}, "the one kind it can be made of"),
    (
        '{"verdicts": [{"claim": "x", "verdict": "Not supported", "why": ""}]}',
        VERDICTS,
        {"verdicts": [{"claim": "x", "verdict": "not_supported"}]},
        "labels within lists",
    ),
    ('{"verdicts": []}', VERDICTS, {"verdicts": []}, "an empty list"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "schema", "want"), [pytest.param(*row[:3], id=row[3]) for row in READ])
def test_unambiguous_replies_are_parsed(text: str, schema: dict[str, Any], want: dict[str, Any]) -> None:
    found = parse_answer(text, schema)
    assert found == want
    assert json.dumps(found) == json.dumps(want)  # 4 and not 4.0, True and not 1
    Draft202012Validator(schema).validate(found)


REFUSED = [  # text, schema, reason, why
    ("", SCORE, "empty_answer", "nothing"),
    (" \n\t\ufeff", SCORE, "empty_answer", "blanks"),
    ("<think>fine</think>", SCORE, "empty_answer", "a thought and nothing else"),
    ('<think>fine {"score": 4}', SCORE, "cut_off", "a thought without end"),
    ('{"score": 1889}', SCORE, "out_of_range", "far beyond the scale"),
    ("1889", SCORE, "out_of_range", "far beyond the scale, bare"),
    ('{"score": "0"}', SCORE, "out_of_range", "below the scale, in quotes"),
    ('{"score": -4}', SCORE, "out_of_range", "negative"),
    ('{"level": 4}', LEVELS, "out_of_range", "no label of a scale of labels"),
    ('{"score": 4.5}', SCORE, "unparseable", "no whole number"),
    ('{"score": NaN}', SCORE, "unparseable", "no number"),
    ('{"share": Infinity}', SHARE, "unparseable", "no end"),
    ('{"share": 1e999}', SHARE, "unparseable", "more than numbers go"),
    ('{"score": ' + "9" * 5000 + "}", SCORE, "unparseable", "more digits than are read"),
    ('{"score": true}', SCORE, "unparseable", "a truth value is no number"),
    ('{"score": [4]}', SCORE, "unparseable", "a list is no number"),
    ('{"score": "four"}', SCORE, "unparseable", "a word"),
    ('{"score": "8/10"}', SCORE, "unparseable", "another scale"),
    ("Score: 8/10", SCORE, "unparseable", "another scale, bare"),
    ("80%", SCORE, "unparseable", "a share on a scale"),
    ("4,5", SCORE, "unparseable", "a comma that may mean two things"),
    ("4-5", SCORE, "unparseable", "between two"),
    ("4 or 5", SCORE, "unparseable", "one of two"),
    ("It cites 3 sources.", SCORE, "unparseable", "a number that is no score"),
    ("I give it 4 for 2 reasons.", SCORE, "unparseable", "two numbers"),
    ("1. Accuracy\n2. Style\n4", SCORE, "unparseable", "a number among others"),
    ("Score: 5\nFinal score: 4", SCORE, "unparseable", "two scores"),
    ("Score: 5\nScore: 4, on reflection", SCORE, "unparseable", "a score and one that cannot be read"),
    ('{"score": 4} no: {"score": 5}', SCORE, "unparseable", "two answers"),
    ('{"score": 4} no: {"score": 1889}', SCORE, "unparseable", "two answers, one of them beyond the scale"),
    ('[{"score": 4}, {"score": 5}]', SCORE, "unparseable", "a list of two"),
    ('{"score": 4, "score": 5}', SCORE, "unparseable", "a key twice"),
    ('{"score": 4, "Score": 5, "SCORE": 4}', MAYBE, None, "the exact name wins over others"),
    ('{"Score": 4, "SCORE": 5}', SCORE, "unparseable", "no exact name and two others"),
    ('{"score": 4', SCORE, "unparseable", "cut in the middle"),
    ('{"parts": {"score": 4}, "score', SCORE, "unparseable", "cut: what is inside means something else"),
    ('{"parts": {"score": 4}, "a" "b"}', SCORE, "unparseable", "broken: what is inside means something else"),
    ('{"parts": {"score": 4}}', SCORE, "unparseable", "the score of a part"),
    ("{'score': 4, 'rationale': 'it's fine'}", SCORE, "unparseable", "quotes that cannot be distinguished"),
    ('{"score": 4}<think>no</think>{"score": 5}', SCORE, "unparseable", "an answer before and one after a thought"),
    ('{"rationale": "fine"}', SCORE, "unparseable", "what is required is missing"),
    ('{"score": null}', SCORE, "unparseable", "nothing for what is required"),
    (json.dumps(SCORE), SCORE, "unparseable", "the schema itself"),
    ('{"score": 4, "rationale": 7}', SCORE, "unparseable", "a number for a text"),
    ("What a fine answer!", SCORE, "unparseable", "prose"),
    ("A or B", PREFERENCE, "unparseable", "two labels"),
    ("A is better than B.", PREFERENCE, "unparseable", "a label in prose"),
    ('{"preferred": "C"}', PREFERENCE, "unparseable", "no label"),
    ('{"verdicts": [{"claim": "x"}]}', VERDICTS, "unparseable", "something missing within a list"),
    ("4", VERDICTS, "unparseable", "a number where none is asked for"),
    ("{" * 10_000, SCORE, "unparseable", "braces"),
    ('{"a":' * 10_000, SCORE, "unparseable", "nested without end"),
    ('{"score":' + "[" * 100 + "]" * 100 + "}", SCORE, "unparseable", "nested too deeply"),
    ("x" * (MAX_ANSWER_CHARS + 1), SCORE, "unparseable", "too long"),
    ("I cannot judge this answer.", SCORE, "refused", "declined"),
    ("I’m unable to evaluate that.", SCORE, "refused", "declined, with a typographic apostrophe"),
    ("As an AI, I have no opinions.", SCORE, "refused", "declined by habit"),
    ("I'm sorry, but I can't help with that.", SCORE, "refused", "declined politely"),
    ('I cannot judge this. {"score": 1}', SCORE, None, "declined and yet judged"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "schema", "reason"), [pytest.param(*row[:3], id=row[3]) for row in REFUSED])
def test_ambiguous_replies_are_rejected(text: str, schema: dict[str, Any], reason: str | None) -> None:
    if reason is None:
        assert parse_answer(text, schema)["score"] in (1, 4)
        return
    with pytest.raises(JudgeError) as caught:
        parse_answer(text, schema)
    assert caught.value.reason == reason
    assert caught.value.raw is not None
    assert caught.value.raw == text if len(text) <= MAX_KEPT_CHARS else len(caught.value.raw) < MAX_KEPT_CHARS + 10
    assert not caught.value.retry
    assert not caught.value.lasting


def test_positions_of_values() -> None:
    for text in ('Well: {"rationale": "4", "score": 4}', "<think>4</think> Score: **4**/5", '{"score": "4"}'):
        start, end = read_answer(text, SCORE).spans["score"]
        assert text[start:end].strip('"') == "4"
        assert start > text.rindex(":")
    assert read_answer('{"score": 4} {"score": 4}', SCORE).spans == {}  # which of them cannot be told


PIECES = st.one_of(
    st.sampled_from([
        "{", "}", "[", "]", '"', "'", "“", "”", ":", ",", "score", '"score"', "rationale", "4", "5", "1889", "-", ".", "/",
        "out of", "Score:", "is", "\n", " ", "\\", "\\u", "\\ud800", "null", "True", "NaN", "1e999", "```json", "<think>",
        "</think>", "**", "I cannot judge", '{"score": 4}', '{"verdicts": [{"claim": "x", "verdict": "supported"}]}', "A",
        "tie", "verdicts", "claim", "verdict", "supported", "preferred", "share", "0.5",
    ]),
    st.text(max_size=5),
)  # fmt: skip
SCHEMAS = st.sampled_from([SCORE, VERDICTS, PREFERENCE, SHARE, LEVELS, MAYBE, {}, {"type": "object"}])


@given(st.lists(PIECES, max_size=25).map("".join), SCHEMAS)
@example('{"score": "٤"}', SCORE)
@example("٤", SCORE)
@example('{"score": "²"}', SCORE)
def test_any_text_gives_a_valid_answer_or_a_judge_error(text: str, schema: dict[str, Any]) -> None:
    found = parsed(text, schema)
    if isinstance(found, JudgeError):
        assert found.reason in {"empty_answer", "unparseable", "out_of_range", "refused", "cut_off"}
        return
    assert isinstance(found, dict)
    Draft202012Validator(schema).validate(found)
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


def parsed(text: str, schema: dict[str, Any]) -> dict[str, Any] | JudgeError:
    try:
        return parse_answer(text, schema)
    except JudgeError as error:
        return error


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6), VALUES, max_size=4), st.booleans(), st.sampled_from(["", "Sure: ", "```\n"])
)
def test_json_objects_are_parsed_like_json(value: dict[str, Any], ascii_alone: bool, before: str) -> None:
    text = before + json.dumps(value, ensure_ascii=ascii_alone)
    schema = {"type": "object", "properties": {key: {} for key in value}, "required": list(value)}
    found = parsed(text, schema)
    if isinstance(found, JudgeError):
        # Numbers that are too long to mean anything, and an object without any key, which is no answer.
        assert not value or "cannot be read" in found.message
    else:
        assert found == value
