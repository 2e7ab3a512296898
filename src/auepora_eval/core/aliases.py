"""Aliases of metrics: ir_measures' ``nDCG@10``, trec_eval's ``ndcg_cut_10``, papers' ``ROUGE-L``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["canonical_name"]

# ir_measures, lower case -> our name. The cut-off follows an @, parameters are in parentheses.
_IR_MEASURES = {
    "ap": "map",
    "map": "map",
    "p": "precision",
    "precision": "precision",
    "r": "recall",
    "recall": "recall",
    "rr": "mrr",
    "mrr": "mrr",
    "ndcg": "ndcg",
    "success": "hit_rate",
    "rprec": "r_precision",
    "rprecision": "r_precision",
    "bpref": "bpref",
    "judged": "judged",
    "rbp": "rbp",
    "err": "err",
    "f1": "f1",
}
# trec_eval, with the cut-off after the last underscore -> our name.
_TREC_EVAL_CUT = {
    "P": "precision",
    "recall": "recall",
    "success": "hit_rate",
    "map_cut": "map",
    "ndcg_cut": "ndcg",
}
_TREC_EVAL = {"recip_rank": "mrr", "Rprec": "r_precision"}
# As rouge-score, sacrebleu and most papers write them.
_TEXT = {
    "rouge1": "rouge1_answer",
    "rouge2": "rouge2_answer",
    "rougel": "rougeL_answer",
    "rougelsum": "rougeLsum_answer",
    "em": "exact_match",
    "chrf++": "chrf",
}
_TEXT_OPTIONS = {"chrf++": {"word_order": 2}}
_GAINS = {"log2": "linear", "exp-log2": "exponential"}
_PARAMETERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "rel": ("min_relevance", int),
    "p": ("p", float),
    "max_rel": ("max_grade", int),
    "dcg": ("gain_scheme", lambda text: _GAINS[text.strip("'\"")]),
}

_IR_SPEC = re.compile(r"(?P<name>[A-Za-z]+1?)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>\d+))?")
_TREC_SPEC = re.compile(r"(?P<name>[A-Za-z_]+)_(?P<k>\d+)")


def canonical_name(text: str) -> tuple[str, dict[str, Any]] | None:
    """The canonical name and options of an alias; ``None`` for an unknown one.

    >>> canonical_name("nDCG@10"), canonical_name("AP(rel=2)@100"), canonical_name("ndcg_cut_10")
    (('ndcg@10', {}), ('map@100', {'min_relevance': 2}), ('ndcg@10', {}))
    """
    if text in _TREC_EVAL:
        return _TREC_EVAL[text], {}
    known = text.lower().replace("-", "").replace("_", "")
    if known in _TEXT:
        return _TEXT[known], dict(_TEXT_OPTIONS.get(known, {}))
    trec = _TREC_SPEC.fullmatch(text)
    if trec is not None and trec["name"] in _TREC_EVAL_CUT:
        return f"{_TREC_EVAL_CUT[trec['name']]}@{trec['k']}", {}
    match = _IR_SPEC.fullmatch(text)
    if match is None or match["name"].lower() not in _IR_MEASURES:
        return None
    options: dict[str, Any] = {}
    for part in filter(None, (match["parameters"] or "").split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in _PARAMETERS:
            return None
        ours, read = _PARAMETERS[key]
        try:
            options[ours] = read(value)
        except (ValueError, KeyError):
            return None
    cut = f"@{match['k']}" if match["k"] else ""
    return f"{_IR_MEASURES[match['name'].lower()]}{cut}", options
