"""Suggestions for unknown keys: names of other tools, typos, the wrong file, custom keys."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ..core.errors import did_you_mean

__all__ = ["RowSchema", "unknown_key_hint"]


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The known keys of the rows of one kind of file, for suggestions."""

    rows: str
    """The name of the rows: ``samples``."""
    keys: Mapping[str, Sequence[str]]
    """The known keys, by the field that holds the object; ``""`` is the row itself."""
    other_rows: str
    other_keys: Sequence[str]


def _invert(keys_by_field: Mapping[str, str]) -> dict[str, str]:
    """Invert a mapping of a field to the keys that other tools use for it."""
    return {key: field for field, keys in keys_by_field.items() for key in keys.split()}


# The names that other tools and common datasets use for the fields, in lower case.
_IDS = "id _id qid query_id question_id"
_SAMPLES = _invert(
    {
        "sample_id": _IDS,
        "query": "question user_input input prompt",
        "reference_answer": "answer reference expected_output ground_truth gold_answer",
        "reference_answers": "answers references ground_truths",
        "relevant_docs": "relevant relevant_documents reference_contexts gold_docs positive_passages",
    }
)
_OUTPUTS = _invert(
    {
        "sample_id": _IDS,
        "response": "answer prediction output actual_output generated_answer completion",
        "retrieved": "contexts retrieved_contexts retrieval_context documents docs results",
    }
)
# Keys of the other file under the names of other tools, if they match no field of this file.
_OTHER_FILE = {
    "samples": {key: field for key, field in _OUTPUTS.items() if key not in _SAMPLES},
    "outputs": {key: field for key, field in _SAMPLES.items() if key not in _OUTPUTS},
}
_DOCUMENT = _invert(
    {
        "doc_id": "id _id docid document_id passage_id chunk_id",
        "text": "content page_content contents body passage",
        "metadata.relevance": "relevance rel grade relevance_score",
    }
)
_ANSWER = _invert({"text": "answer content output"})
_SYNONYMS = {
    "relevant_docs": _DOCUMENT,
    "candidate_docs": _DOCUMENT,
    "doc": _DOCUMENT,
    "response": _ANSWER,
    "reference_answer": _ANSWER,
}
_CUSTOM_KEYS_FIELD = {  # where custom keys belong
    "relevant_docs": "'metadata'",
    "candidate_docs": "'metadata'",
    "doc": "'metadata'",
    "response": "'metadata'",
    "reference_answer": "'metadata'",
    "retrieved": "'doc.metadata'",
}
_CUSTOM_KEYS_FIELD_OF_ROW = {"samples": "'labels' or 'metadata'", "outputs": "'extra'"}

_POSITION = 'a position of a ranking is {"doc": {"doc_id": "d1", "text": "..."}, "score": 0.5}, or just the id "d1"'
_LEVEL = '; did you mean \'metadata.relevance\'? Write {"doc_id": "d1", "metadata": {"relevance": 2}}'


def unknown_key_hint(path: str, key: str, raw: object, schema: RowSchema) -> str:
    """Return a clause about the unknown ``key`` of the object at ``path`` in the row ``raw``."""
    holder = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    known, word = schema.keys.get(holder, ()), key.lower()
    if not path and (elsewhere := _other_file_hint(key, raw, schema)):
        return elsewhere
    if holder == "retrieved" and (word in schema.keys["doc"] or word in _DOCUMENT):
        return f": {_POSITION}"
    synonyms = _SYNONYMS.get(holder, {}) if path else (_SAMPLES if schema.rows == "samples" else _OUTPUTS)
    meant = synonyms.get(word)
    if meant == "metadata.relevance":
        return _LEVEL
    if meant is not None:
        return f"; did you mean {meant!r}?"
    own = _CUSTOM_KEYS_FIELD.get(holder) if path else _CUSTOM_KEYS_FIELD_OF_ROW[schema.rows]
    listing = f"; known fields: {', '.join(known)}" + (f"; put keys of your own under {own}" if own else "")
    nearest = get_close_matches(key[:80].lower(), known, n=1)  # one: `reference` is near both reference_answer(s)
    return did_you_mean(key[:80], nearest, otherwise=listing)


def _other_file_hint(key: str, raw: object, schema: RowSchema) -> str:
    own = set(schema.keys[""]) - {"sample_id"}
    of_this_file = isinstance(raw, Mapping) and not own.isdisjoint(raw)
    place = f"leave it out, or put it under {_CUSTOM_KEYS_FIELD_OF_ROW[schema.rows]}"
    if key in schema.other_keys:
        clause = f": {schema.other_rows} have it, {schema.rows} do not"
        return f"{clause}; {place}" if of_this_file else f"{clause} (are the two files swapped?)"
    meant = _OTHER_FILE[schema.rows].get(key.lower())
    return "" if meant is None else f": that is {meant!r} in the file of the {schema.other_rows}; {place}"
