"""Descriptions of signature options, outcomes, intervals and reducers."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.conventions import Conventions

__all__ = [
    "describe_convention",
    "describe_flag",
    "describe_interval",
    "describe_option",
    "describe_reason",
    "describe_reducer",
    "hint_for_reason",
]

OPTIONS: dict[str, str] = {
    "ap:hits": "average precision divides by the hits within k, so that it ignores recall",
    "ap:capped": "average precision divides by min(|G|, k)",
    "ap:gold": "average precision divides by |G|, all that is relevant, as trec_eval does",
    "p:returned": "precision divides by the positions returned, k at most",
    "p:k": "precision divides by k itself, however few were returned",
    "p": "a reader goes on to the next position with this probability",
    "empty:skip": "a query with nothing relevant is left out",
    "empty:zero": "a query with nothing relevant scores 0",
    "empty:judged": "a query with nothing relevant scores 0 if it was judged at all, else it is left out",
    "gain:binary": "a relevant document gains 1, whatever its level",
    "gain:exponential": "a document gains 2^level − 1",
    "gain:linear": "a document gains its level",
    "ties:average": "neighbours with equal scores share their gains",
    "rel": "a document is relevant from this level on",
    "depth": "every ranking is cut here before anything is computed",
    "k:eff": "a cut-off is as deep as the list can fill: min(k, returned)",
    "k": "so many of the returned documents are looked at",
    "cut": "the list is cut here, though the name does not say it",
    "top_k": "so many documents were asked for",
    "max": "the highest level there can be",
    "missing:skip": "a sample without output is left out",
    "missing:zero": "a sample without output counts as nothing returned",
    "failed:exclude": "a failed answer leaves the mean",
    "norm:squad": "compared without case, ASCII punctuation, articles and extra white space, as SQuAD's script does",
    "norm:lower": "compared without case",
    "norm:none": "compared letter by letter",
    "norm": "these are ignored when texts are compared",
    "tok:13a": "tokens by the rules of mteval-v13a, as sacrebleu cuts them",
    "tok:rouge_score": "tokens are runs of a–z and 0–9 in lower case, as the rouge-score package has it",
    "tok:unicode": "tokens are runs of letters and digits of any script",
    "tok": "how texts are cut into tokens",
    "stem:porter": "words longer than three letters are stemmed (Porter)",
    "stem:none": "words are not stemmed",
    "case:mixed": "case matters",
    "case:lc": "texts are put in lower case first",
    "order": "n-grams of up to so many words",
    "smooth": "how an order without any match is smoothed",
    "nc": "n-grams of up to so many characters",
    "nw": "n-grams of up to so many words as well",
    "beta": "how much a miss, or recall, weighs",
    "space:no": "white space is left out",
    "space:yes": "white space counts as characters",
    "n": "n-grams of so many words",
    "evidence:retrieved": "the evidence is what was retrieved",
    "evidence:relevant": "the evidence is the relevant documents",
    "evidence:joined": "the documents are read together, as one text",
    "evidence:each": "the documents are read one by one, and one of them must do alone",
    "evidence": "what the model reads at a time",
    "claims:sentences": "every sentence is taken for a claim",
    "claims": "what lists the claims: name, version, digest of the prompt",
    "support": "what checks statements: name, version, digest of the prompt",
    "verifier": "who checks statements in the judge's place",
    "citations": "where citations are looked for",
    "at_most": "so many citations of a sentence are looked at",
    "judged:first": "the first citation of a sentence counts",
    "judged:all": "all citations of a sentence count, by their mean",
    "variant": "which nuggets count, and what is there in part",
    "at_a_time": "so many nuggets are judged in one question",
    "against:reference": "documents should be useful for the reference answer",
    "against:answer": "documents should be useful for the answer that was given",
    "noise:both": "wrong claims from any document count",
    "noise:relevant": "wrong claims from relevant documents count",
    "noise:irrelevant": "wrong claims from irrelevant documents count",
    "corpus:retrieved": "known are the documents retrieved for the sample",
    "corpus": "known are the documents of the corpus given, or so many there are",
    "refusal": "what tells a refusal from an answer",
    "concurrency": "so many requests were in flight at once",
    "timing": "which timing",
    "by:latency": "from the time each answer took",
    "by:clock": "from when each request began and ended",
    "by": "who wrote the metric",
    "vectors:metadata": "vectors stand with the documents",
    "vectors:words": "a text is the vector of how often each word occurs in it",
    "vectors": "what makes the vectors",
    "embed": "what makes the vectors",
    "model": "the model that was asked",
    "precision": "how exactly the model computes",
    "to:query": "answers are compared to the query, not to a reference",
    "critic": "who judges",
    "prompt": "what the judge is asked: name, version, digest",
    "scale": "between which numbers the judge answers, the worst first",
    "rationale:no": "the judge is not asked for its reasons",
    "dimensions": "what is judged apart",
    "aggregation:mean": "the dimensions' mean",
    "aggregation:min": "the weakest dimension",
    "aggregation:weighted": "the dimensions' mean by weight",
    "weights": "how much each dimension weighs",
    "fa:returned": "false alarms are counted among what was returned",
    "fa:collection": "false alarms are counted among all that is not relevant in the collection",
    "form:query": "averaged over queries",
    "form:program": "misses are averaged over queries with gold, false alarms over all, and then put together",
    "field": "which field holds the label",
    "fields": "which fields are compared",
    "schema": "the samples' own schema, or the digest of the one given",
    "cues": "phrases by which an answer says that documents are wrong",
    "over": "among which samples",
    "threshold": "right is a score of at least this",
    "from": "from where on it counts",
    "insufficient": "what becomes of an answer that says that information is insufficient",
    "noise": "scenarios that count as noise",
    "scenarios": "scenarios looked at",
    "base_set:pairs": "held against the base of each noisy sample",
    "base_set:all": "held against all samples without noise",
    "where": "which samples are asked for",
    "value": "which variant the value is",
    "base": "the metric this one is over",
    "similarity": "what compares the two answers",
    "correct": "what tells right from wrong",
    "faithfulness": "what tells whether an answer is borne out",
    "hit": "what a hit is",
    "given": "what a hit is",
    "against": "what the documents are held against",
    "noncommittal": "what becomes of an answer that commits itself to nothing",
    "judged": "which of the cited documents are judged",
}
"""The meaning of an option, by ``key:value`` where the value matters, else by key."""

REASONS: dict[str, str] = {
    "missing_output": "there is no output for the sample",
    "no_response": "no answer was asked for",
    "timeout": "the system did not answer in time",
    "error": "the system reported an error",
    "raised": "the system raised an error",
    "not_a_number": "the metric gave something that is not a finite number",
    "one_failed": "the system failed on the sample, or on its base",
    "base_failed": "the base of the sample failed, so that there is nothing to hold it against",
    "bad_timing": "the timing is negative or no number",
    "bad_citations": "the citations are not a list of ids",
    "bad_nuggets": "the nuggets are not a list of statements, each vital or okay",
    "bad_reference": "the reference is not of the form that is needed",
    "bad_expectation": "what the sample expects is not of the form that is needed",
    "bad_answerable": "the mark `answerable` is neither true nor false",
    "unparseable": "the judge's answer could not be read",
}
"""Reasons that a metric's own page does not explain."""

REASON_HINTS: dict[str, str] = {
    "no_gold": "annotate `relevant_docs` for the sample ([] if nothing is relevant)",
    "empty_gold": "conventions with `empty_gold: zero` count such queries as 0",
    "no_reference": "give the sample a `reference_answer`",
    "empty_reference": "give the sample a reference answer with a word in it",
    "no_response": "let the system answer: the output needs a `response`",
    "no_candidates": "give the sample `candidate_docs`, or judgements below `min_relevance`",
    "no_text": "let the system return the texts of its documents, not only their ids",
    "no_citations": "let the system say what it cites: `citations`, or those of `response.sentences`",
    "no_timing": "let the system report this timing",
    "no_start": "let the system report when each request began: `timings.started`",
    "no_noise_ratio": "mark the sample with `labels.noise_ratio`",
    "no_base": "add the sample named in `labels.variant_of` to the dataset",
    "not_a_variant": "mark variants with `labels.variant_of` and `labels.scenario`",
    "no_label": "give the expected label: `reference_answer.structured` or `labels`",
    "no_fields": "give the reference answer a structured form",
    "no_schema": "give a schema, as an option or in `metadata.output_schema`",
    "no_expectation": "give the sample `metadata.expected_doc_ids`",
    "no_false_documents": "mark samples with false documents by `metadata.wrong_answer`",
    "no_wrong_answer": "give the sample `metadata.wrong_answer`",
    "missing_output": "ask the system for this sample: `auepora run PLAN --resume`",
}
"""What would make a skipped sample scorable, by reason."""

INTERVALS = {
    "wilson": "Wilson's interval of a share",
    "t": "Student's t from the spread of the samples",
    "bootstrap": "drawing samples anew, 10,000 times",
    "all_equal": "all scores are equal: how far one other sample could move their mean",
    "newcombe": "Newcombe's interval of a difference of shares",
}
FLAGS = {
    "few": "few samples: it may be too narrow",
    "skewed": "the scores are skewed: it may be too narrow",
    "unbounded": "nothing seen bounds it on one side",
    "unstable": "some draws have no value",
}
REDUCERS = {
    "mean": "the mean of the samples' scores",
    "bleu": "BLEU of the counts of all answers added up, not a mean of scores",
    "chrf": "chrF of the counts of all answers added up, not a mean of scores",
    "quantile": "the score that this share of all scores does not exceed, not a mean",
    "ratio": "the noisy side's number over the base side's, not a mean of scores",
    "distinct": "different n-grams over n-grams of all answers together, not a mean of scores",
    "set_f1": "F1 of two sets of samples, refused and unanswerable, not a mean of scores",
    "answer_rate": "answers over the seconds they took, not a mean of scores",
    "clock_rate": "answers over the time from the first start to the last end, not a mean of scores",
    "aqwv_program": "1 − mean P_miss − β · mean P_FA, not a mean of scores",
    "compute": "what the metric makes of all samples at once",
}


def describe_option(key: str, value: str, own_help: Mapping[str, str]) -> str:
    """The meaning of a signature option; options of a base metric are named ``base.norm`` and so on."""
    role, _, inner = key.rpartition(".")
    for words in (own_help, OPTIONS):
        for name in (f"{inner}:{value}", inner):
            if name in words:
                return f"{words[name]} (for `{role}`)" if role else words[name]
    return f"an option of `{role}`" if role else "an option of the metric"


def describe_convention(conventions: Conventions | None) -> str:
    """The conventions in force, with their changes."""
    if conventions is None:
        return "not known"
    changes = [f"{key} {value}" for key, value in conventions.changes().items()]
    schools = {
        "auepora": "the framework's own",
        "paper": "as papers report it",
        "paper-positives": "as papers report it, over queries with gold",
        "golden": "as golden sets are scored",
        "client": "as the client reports it",
        "trec": "as trec_eval computes it",
    }
    words = f"{conventions.name} ({schools[conventions.name]})" if conventions.name in schools else conventions.name
    return words + (f", with {', '.join(changes)}" if changes else "")


def describe_interval(method: str, units: int | None, per_sample: bool) -> str:
    """The method of an interval and its number of units."""
    words = INTERVALS.get(method, method)
    return words if units is None else f"{words}, over {units} {'samples' if per_sample else 'clusters of samples'}"


def describe_flag(flag: str) -> str:
    """Why an interval may be too narrow."""
    return FLAGS.get(flag, flag)


def describe_reducer(name: str) -> str:
    """How scores are reduced to the value."""
    head, bracket, rest = name.partition("[")
    words = REDUCERS.get(head, name)
    return f"{words} ({rest.removesuffix(']')})" if bracket and head == "quantile" else words


def describe_reason(reason: str, own_help: Mapping[str, str]) -> str:
    """Why a sample has no score, or failed."""
    if reason in own_help:
        return own_help[reason]
    if reason in REASONS:
        return REASONS[reason]
    return reason.replace("_", " ")


def hint_for_reason(reason: str) -> str | None:
    """What would make a skipped sample scorable; ``None`` where there is no general hint."""
    return REASON_HINTS.get(reason)
