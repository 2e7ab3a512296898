"""Perturbations of retrieved documents: kinds and rates, noise, counterfactual texts, labels; perturbed retrievers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Protocol

from ..core.conventions import Match
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import BadTypeError, BadValueError, did_you_mean
from ..features.matching import is_relevant_chunk
from ..features.rankings import parse_level
from ..features.texts import is_unanswerable
from ..options import check_options
from ..systems.adapters import display_class_name
from ..systems.interfaces import (
    RETRIEVER_NOT_CALLED,
    GenerationFailedError,
    System,
    SystemParts,
    adapt,
    as_system,
    is_async,
    run_without_waiting,
    split_system,
)
from ..text.tokenizers import squad_words
from .edits import count_for_rate, hash_uniform, seeded_permutation
from .payloads import BUILT_IN, PAYLOAD, Payload, choose_payload, payload_document, wrong_answer

# --- kinds and rates of document perturbations, and the sweep syntax ``noise=0,0.2,0.4`` -----------------------------

KINDS = {
    "noise": "documents that are not relevant take the place of the last ones",
    "drop": "the relevant ones are taken out",
    "counterfactual": "in the relevant ones a false answer stands in place of the right one",
    "empty": "nothing is returned",
    "shuffle": "the order is random",
    "duplicate": "documents occur twice",
    "inject": "an adversarial document is among them",
}
"""The perturbations of a ranking, with their descriptions."""
NEED_GOLD = frozenset({"drop", "counterfactual"})
"""Kinds that need gold."""
ARMS_KIND = "arms"
ARMS: dict[str, dict[str, float]] = {"none": {"empty": 1.0}, "original": {}, "edited": {"counterfactual": 1.0}}
"""The same questions without documents, with retrieved and with counterfactual ones; as rates of the kinds above."""

Level = float | str
"""One point of a sweep: a rate, or the name of an arm."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """The rate of each kind of perturbation, from 0 to 1, and the seed."""

    noise: float = 0.0
    drop: float = 0.0
    counterfactual: float = 0.0
    empty: float = 0.0
    shuffle: float = 0.0
    duplicate: float = 0.0
    inject: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in KINDS:
            object.__setattr__(self, kind, _rate(kind, getattr(self, kind)))
        check_options(self)

    @property
    def rates(self) -> dict[str, float]:
        """The rates above 0, by kind."""
        return {kind: rate for kind, rate in asdict(self).items() if kind in KINDS and rate > 0}

    @classmethod
    def from_arm(cls, arm: str, seed: int = 0) -> Perturbation:
        """The perturbation of an arm."""
        if arm not in ARMS:
            hint = did_you_mean(arm, ARMS, otherwise=f"; choose one of: {', '.join(ARMS)}")
            raise BadValueError(f"there is no arm '{arm}'{hint}")
        return cls(**ARMS[arm], seed=seed)


assert {declared_field.name for declared_field in fields(Perturbation)} == {*KINDS, "seed"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One kind of perturbation at several rates, or several arms; each level is one run."""

    kind: str
    levels: tuple[Level, ...]
    payloads: tuple[Payload, ...] = field(default=BUILT_IN, repr=False)
    """The adversarial documents of ``inject``."""

    @classmethod
    def parse(cls, spec: str | Mapping[str, Sequence[Level]]) -> Sweep:
        """Parse a sweep: ``noise=0,0.2,0.4``, ``arms=none,original,edited``, ``{"drop": [0, 0.5, 1]}``."""
        if isinstance(spec, str):
            kind, equals, levels = spec.partition("=")
            if not equals:
                raise BadValueError(f"'{spec}' has no rates; write KIND=RATES, such as noise=0,0.2,0.4")
            return cls._validated(kind.strip(), [level.strip() for level in levels.split(",")])
        if not isinstance(spec, Mapping) or len(spec) != 1:
            raise BadValueError(f"name one kind of perturbation with its rates, such as noise=0,0.2,0.4; not {spec!r}")
        ((kind, rates),) = spec.items()
        return cls._validated(kind, [rates] if isinstance(rates, (str, float, int)) else list(rates))

    @classmethod
    def _validated(cls, kind: str, levels: list[Any]) -> Sweep:
        if kind not in (*KINDS, ARMS_KIND):
            known = f"; choose one of: {', '.join((*KINDS, ARMS_KIND))}"
            raise BadValueError(
                f"unknown perturbation '{kind}'{did_you_mean(kind, (*KINDS, ARMS_KIND), otherwise=known)}"
            )
        if kind == ARMS_KIND:
            for arm in levels:
                Perturbation.from_arm(str(arm))
            checked: tuple[Level, ...] = tuple(str(level) for level in levels)
        else:
            checked = tuple(_rate(kind, level) for level in levels)
        if not checked:
            raise BadValueError(f"{kind} has no rates; write some, such as {kind}=0,0.5,1")
        for level in checked:
            if checked.count(level) > 1:
                raise BadValueError(f"{kind}={level_text(level)} is listed twice; list each level once")
        return cls(kind, checked)

    @property
    def base(self) -> Level:
        """The level that the others are compared with: rate 0 if present, else the first."""
        return 0.0 if 0.0 in self.levels and self.kind != ARMS_KIND else self.levels[0]

    @property
    def perturbs(self) -> set[str]:
        """The kinds with a rate above 0 at any level."""
        return set(chain.from_iterable(self.perturbation(level).rates for level in self.levels))

    def perturbation(self, level: Level, seed: int = 0) -> Perturbation:
        """The perturbation at a level."""
        if isinstance(level, str):
            return Perturbation.from_arm(level, seed)
        return Perturbation(**{self.kind: level}, seed=seed)

    def label(self, level: Level) -> str:
        """A level as used in run names and tags: ``noise=0.2``, ``arm=edited``."""
        return f"{'arm' if self.kind == ARMS_KIND else self.kind}={level_text(level)}"

    def __str__(self) -> str:
        return f"{self.kind}={','.join(map(level_text, self.levels))}"


def level_text(level: Level) -> str:
    """The name of an arm, or a rate as short as it is exact: ``0``, ``0.2``, ``1``."""
    return level if isinstance(level, str) else repr(level).removesuffix(".0")


def _rate(kind: str, value: Any) -> float:
    try:
        rate = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 <= rate <= 1:
        raise BadValueError(f"the rate of {kind} must be a number from 0 to 1, not {value!r:.60}")
    return rate + 0.0  # -0.0 is 0


# --- counterfactual documents: the wrong answer replaces the right one -----------------------------------------------

DocumentEdit = Callable[[EvaluationSample, Document], str | Document | None]
"""Returns a counterfactual document, or its text; ``None`` where none can be made."""


def counterfactual_document(
    sample: EvaluationSample, document: Document, edit: DocumentEdit | None = None
) -> Document | None:
    """The document with the wrong answer in place of the right one; ``None`` where it does not contain the right one.

    ``edit`` replaces the search for the answer. The id stays: the hit is right, its content is not.
    """
    if edit is None:
        wrong = wrong_answer(sample)
        edited: str | Document | None = (
            None if wrong is None else _replace_answers(document.text, sample.references, wrong)
        )
    else:
        edited = edit(sample, document)
    if edited is None or isinstance(edited, Document):
        return edited
    if not isinstance(edited, str):
        raise BadTypeError(f"the edit function returned {type(edited).__name__}, not a string or a Document")
    return replace(document, text=edited) if edited != document.text else None


def _replace_answers(text: str, answers: Iterable[str], wrong: str) -> str:
    """The text with each answer replaced: whole words, any case, the longest answer first."""
    stripped = {answer.strip().rstrip(".!?") for answer in answers} - {""}
    right_answers = sorted(stripped, key=lambda answer: (-len(answer), answer))
    if not right_answers:
        return text
    spaced = ("\\s+".join(map(re.escape, right_answer.split())) for right_answer in right_answers)
    return re.sub(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)", lambda _: wrong, text, flags=re.IGNORECASE)


# --- gold of a sample, from its annotations --------------------------------------------------------------------------


def gold_keys(sample: EvaluationSample) -> frozenset[str]:
    """The ids of a sample's gold: chunks, or whole documents (``metadata["expected_doc_ids"]``)."""
    named = [doc.doc_id for doc in sample.relevant_docs or () if _is_relevant(doc, sample)]
    return frozenset([*named, *_expected_doc_ids(sample)])


def has_gold(sample: EvaluationSample) -> bool:
    """Whether the sample has gold."""
    return bool(gold_keys(sample))


def gold_key(document: Document, keys: frozenset[str]) -> str | None:
    """The gold id that makes a document relevant, its own or its parent's; or ``None``."""
    if document.doc_id in keys:
        return document.doc_id
    return document.parent_id if document.parent_id in keys else None


def gold_of(sample: EvaluationSample, document: Document, match: Match = "id") -> list[str]:
    """The ids of the gold to which a retrieved document is relevant. By id, its own or its parent's is one of them."""
    if match == "id" or not sample.relevant_docs:
        key = gold_key(document, gold_keys(sample))
        return [] if key is None else [key]
    relevant = [passage for passage in sample.relevant_docs if _is_relevant(passage, sample)]
    return [passage.doc_id for passage in relevant if is_relevant_chunk(document, [passage], match)]


def gold_parents(sample: EvaluationSample) -> frozenset[str]:
    """The parents of the gold: other chunks of these documents may be relevant too, so they are not noise."""
    return frozenset(
        [*(doc.parent for doc in sample.relevant_docs or () if _is_relevant(doc, sample)), *_expected_doc_ids(sample)]
    )


def _is_relevant(document: Document, sample: EvaluationSample) -> bool:
    return parse_level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id) >= 1


def _expected_doc_ids(sample: EvaluationSample) -> list[str]:
    doc_ids = sample.metadata.get("expected_doc_ids") if isinstance(sample.metadata, Mapping) else None
    return [str(doc_id) for doc_id in doc_ids] if isinstance(doc_ids, (list, tuple)) else []


# --- noise documents: drawn from those that are not relevant to a sample ---------------------------------------------


class CorpusLike(Protocol):
    """Documents by id, such as ``io.corpus.Corpus``; they are read on access."""

    def __iter__(self) -> Iterator[str]:
        """The ids."""

    def __getitem__(self, doc_id: str, /) -> Document:
        """The document of that id."""


class NoisePool:
    """Documents to draw noise from. A seed draws the same noise for a sample, independent of other samples.

    Documents that may be relevant are not drawn: the sample's gold, other chunks of the same documents, and any text
    that contains an acceptable answer.
    """

    def __init__(self, ids: Iterable[str], document: Callable[[str], Document], source_name: str) -> None:
        self._ids = list(ids)
        self._document = document
        self.source_name = source_name
        """Where the documents come from, for run plans and messages."""

    @classmethod
    def from_documents(
        cls, source: CorpusLike | Iterable[Document], source_name: str = "the documents given"
    ) -> NoisePool:
        """A pool of documents, or of a corpus that has them by id."""
        if hasattr(source, "__getitem__") and not isinstance(source, (Sequence, str)):
            corpus: CorpusLike = source  # type: ignore[assignment]
            return cls(corpus, corpus.__getitem__, source_name)
        by_id: dict[str, Document] = {}
        for document in source if isinstance(source, Iterable) and not isinstance(source, (str, Mapping)) else [source]:
            if not isinstance(document, Document):
                raise BadTypeError(
                    f"noise is drawn from documents or from a corpus that has them by id, not from a "
                    f"{type(document).__name__}; open a file with auepora_eval.io.corpus.Corpus.open"
                )
            by_id.setdefault(document.doc_id, document)
        return cls(by_id, by_id.__getitem__, source_name)

    @classmethod
    def from_samples(cls, samples: Iterable[EvaluationSample]) -> NoisePool:
        """A pool of the gold and candidate documents of samples that have a text."""
        listed = ([*(sample.relevant_docs or ()), *(sample.candidate_docs or ())] for sample in samples)
        documents = [doc for doc in chain.from_iterable(listed) if doc.text.strip()]
        return cls.from_documents(documents, "the samples' documents")

    def __len__(self) -> int:
        return len(self._ids)

    def draw(self, sample: EvaluationSample, seed: int, exclude_ids: Collection[str] = ()) -> Iterator[Document]:
        """Yield noise documents for a sample, except these ids; a longer draw starts with the shorter one."""
        keys, parents = gold_keys(sample), gold_parents(sample)
        for position in seeded_permutation(len(self._ids), seed, sample.sample_id, "noise"):
            if self._ids[position] in keys or self._ids[position] in exclude_ids:
                continue
            document = self._document(self._ids[position])
            if document.parent in parents or document.parent in keys:
                continue
            if contains_answer(document.text, sample):
                continue
            yield document

    def require(
        self, sample: EvaluationSample, needed: int, seed: int, exclude_ids: Collection[str] = (), *, hint: str = ""
    ) -> None:
        """Raise unless ``needed`` noise documents can be drawn for a sample."""
        found = sum(1 for _ in islice(self.draw(sample, seed, exclude_ids), needed))
        if found < needed:
            others = " and were not retrieved for it" if exclude_ids else ""
            raise BadValueError(
                f"there is too little noise for sample '{sample.sample_id}': it needs {needed}, and of the {len(self)} "
                f"documents in {self.source_name} only {found} are certainly not relevant to it{others}; "
                f"{hint or 'give a larger corpus'}"
            )


def contains_answer(text: str, sample: EvaluationSample) -> bool:
    """Whether a text contains an acceptable answer to the question of a sample, as whole words."""
    answers = (_padded_words(reference) for reference in sample.references)
    return any(answer in _padded_words(text) for answer in answers if answer.strip())


@lru_cache(maxsize=20_000)
def _padded_words(text: str) -> str:
    """The normalised words of a text with blanks around each, so that substring search finds whole words."""
    return f" {' '.join(squad_words(text))} "


# --- perturbation of one ranking, and the record of its changes ------------------------------------------------------

PerturbationRecord = dict[str, Any]
"""The changes made to a ranking, as stored in an output's ``extra["perturbation"]``."""


def is_emptied(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether the ranking of this sample is emptied."""
    return hash_uniform(perturbation.seed, sample.sample_id, "empty") < perturbation.empty


def removes_all_relevant(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether no gold document can be left in the ranking, whatever the retriever returns."""
    if perturbation.noise == 1 or is_emptied(sample, perturbation):
        return True
    keys = gold_keys(sample)
    return bool(keys) and all(_is_selected(sample, "drop", key, perturbation) for key in keys)


def _is_selected(sample: EvaluationSample, kind: str, item: str, perturbation: Perturbation) -> bool:
    rate: float = getattr(perturbation, kind)
    return rate > 0 and hash_uniform(perturbation.seed, sample.sample_id, kind, item) < rate


@dataclass(frozen=True, slots=True)
class Perturber:
    """Perturbs rankings. Immutable, so that threads may share it."""

    perturbation: Perturbation
    pool: NoisePool | None = None
    """Where noise is drawn from."""
    edit: DocumentEdit | None = None
    """Makes a counterfactual document; without it the wrong answer replaces the right one."""
    payloads: tuple[Payload, ...] = BUILT_IN
    """The adversarial documents of ``inject``."""
    match: Match = "id"
    """How gold is found in rankings."""

    def __post_init__(self) -> None:
        if self.perturbation.noise > 0 and not self.pool:
            raise BadValueError(
                "there are no documents to draw noise from: give a corpus, or samples whose documents have texts"
            )

    def apply(self, sample: EvaluationSample, retrieved: Any) -> tuple[Any, PerturbationRecord]:
        """The perturbed ranking and the record of its changes; anything but a list of documents is returned unchanged.

        Positions keep their scores, whichever document is there now. An unchanged ranking is the same object.
        """
        if not isinstance(retrieved, (list, tuple)) or not all(
            isinstance(document, RetrievedDocument) for document in retrieved
        ):
            return retrieved, {}  # the caller reports the error
        if is_emptied(sample, self.perturbation):
            return [], {"dropped": _ids([document.doc for document in retrieved])} if retrieved else {}
        record: PerturbationRecord = {}
        items = self._drop_relevant(sample, retrieved, record)
        documents = [item.doc for item in items]
        documents = self._edit_relevant(sample, documents, record)
        documents = self._inject_noise(sample, documents, {document.doc.doc_id for document in retrieved}, record)
        documents = self._duplicate(sample, documents, record)
        documents = self._shuffle(sample, documents, record)
        attack = choose_payload(sample, self.perturbation.inject, self.perturbation.seed, self.payloads)
        if attack is not None:
            items, documents = self._inject_payload(sample, list(items), documents, payload_document(attack), record)
        if not any(name in record for name in ("dropped", "edited", "injected", "duplicated", "shuffled", PAYLOAD)):
            return retrieved, record
        return [
            replace(item, doc=document, rank=rank)
            for rank, (item, document) in enumerate(zip(items, documents, strict=True), 1)
        ], record

    def _drop_relevant(
        self, sample: EvaluationSample, items: Sequence[RetrievedDocument], record: PerturbationRecord
    ) -> Sequence[RetrievedDocument]:
        hit = [self._selects(sample, "drop", item.doc) for item in items]
        _record_ids(record, "dropped", [item.doc for item, gone in zip(items, hit, strict=True) if gone])
        return [item for item, gone in zip(items, hit, strict=True) if not gone]

    def _edit_relevant(
        self, sample: EvaluationSample, documents: list[Document], record: PerturbationRecord
    ) -> list[Document]:
        documents_out: list[Document] = []
        edited: list[Document] = []
        unedited: list[Document] = []
        for document in documents:
            if not self._selects(sample, "counterfactual", document):
                documents_out.append(document)
                continue
            counterfactual = counterfactual_document(sample, document, self.edit)
            (unedited if counterfactual is None else edited).append(document)
            documents_out.append(counterfactual or document)
        _record_ids(record, "edited", edited)
        _record_ids(record, "unedited", unedited)
        return documents_out

    def _selects(self, sample: EvaluationSample, kind: str, document: Document) -> bool:
        """Whether a document is relevant, and all gold that makes it so is selected."""
        if not getattr(self.perturbation, kind):
            return False
        keys = gold_of(sample, document, self.match)
        return bool(keys) and all(_is_selected(sample, kind, key, self.perturbation) for key in keys)

    def _inject_noise(
        self, sample: EvaluationSample, documents: list[Document], exclude_ids: set[str], record: PerturbationRecord
    ) -> list[Document]:
        n = len(documents)
        needed = count_for_rate(self.perturbation.noise, n)
        if not needed:
            return documents
        assert self.pool is not None
        seed = self.perturbation.seed
        drawn = self.pool.draw(sample, seed, exclude_ids)
        noise = list(islice((doc for doc in drawn if not gold_of(sample, doc, self.match)), needed))
        if len(noise) < needed:
            record["too_few"] = needed - len(noise)
        # Positions follow one order too: a document injected at a low rate is at the same position at a higher one.
        injected_at = dict(zip(seeded_permutation(n, seed, sample.sample_id, "places"), noise, strict=False))
        kept = iter(documents)
        mixed = [injected_at[position] if position in injected_at else next(kept) for position in range(n)]
        _record_ids(record, "injected", noise)
        _record_ids(record, "displaced", list(kept))
        return mixed

    def _inject_payload(
        self,
        sample: EvaluationSample,
        items: list[RetrievedDocument],
        documents: list[Document],
        payload: Document,
        record: PerturbationRecord,
    ) -> tuple[list[RetrievedDocument], list[Document]]:
        """Insert the payload at a position drawn from the seed; the last document is removed."""
        record[PAYLOAD] = [payload.doc_id]
        if not documents:
            return [RetrievedDocument(payload, None, 1)], [payload]
        position = int(hash_uniform(self.perturbation.seed, sample.sample_id, "payload place") * len(documents))
        _record_ids(record, "displaced", documents[-1:])
        return items, [*documents[:position], payload, *documents[position:-1]]

    def _duplicate(
        self, sample: EvaluationSample, documents: list[Document], record: PerturbationRecord
    ) -> list[Document]:
        n = len(documents)
        positions: list[int] = []
        for position, document in enumerate(documents):
            is_doubled = _is_selected(sample, "duplicate", document.doc_id, self.perturbation)
            positions += [position] * (1 + is_doubled)
        left = Counter(positions[:n])
        placed = list(enumerate(documents))
        _record_ids(record, "duplicated", [document for position, document in placed if left[position] > 1])
        _record_ids(record, "displaced", [document for position, document in placed if not left[position]])
        return [documents[position] for position in positions[:n]]

    def _shuffle(
        self, sample: EvaluationSample, documents: list[Document], record: PerturbationRecord
    ) -> list[Document]:
        positions = [
            position
            for position, document in enumerate(documents)
            if _is_selected(sample, "shuffle", document.doc_id, self.perturbation)
        ]
        seed = self.perturbation.seed
        order = sorted(
            positions, key=lambda position: hash_uniform(seed, sample.sample_id, "order", documents[position].doc_id)
        )
        shuffled = list(documents)
        for position, source in zip(positions, order, strict=True):
            shuffled[position] = documents[source]
        if order != positions:
            _record_ids(record, "shuffled", shuffled)
        return shuffled


def _record_ids(record: PerturbationRecord, what: str, documents: Sequence[Document]) -> None:
    if documents:
        record[what] = record.get(what, []) + _ids(documents)


def _ids(documents: Sequence[Document]) -> list[str]:
    return [document.doc_id for document in documents]


# --- labels of samples in perturbed runs, which metrics read ---------------------------------------------------------


def require_annotations(samples: Sequence[EvaluationSample], sweep: Sweep, edit: DocumentEdit | None = None) -> None:
    """Raise where annotations that a kind of perturbation needs are missing."""
    if "inject" in sweep.perturbs and all(choose_payload(sample, 1, 0, sweep.payloads) is None for sample in samples):
        raise BadValueError(
            f"{sweep}: no payload can be filled for any sample: their placeholders need reference answers, or "
            "metadata.wrong_answer"
        )
    for kind in sorted(sweep.perturbs & NEED_GOLD):
        if not any(map(has_gold, samples)):
            raise BadValueError(
                f"{sweep} needs gold documents, and no sample has any (relevant_docs, or metadata.expected_doc_ids)"
            )
        editable = [
            sample for sample in samples if has_gold(sample) and wrong_answer(sample) is not None and sample.references
        ]
        if kind == "counterfactual" and edit is None and not editable:
            raise BadValueError(
                f"{sweep} replaces the right answer by a wrong one, and no sample has relevant documents, a reference "
                "answer and metadata.wrong_answer; add them, or give a function 'edit'"
            )


def label_sample(sample: EvaluationSample, sweep: Sweep, level: Level, seed: int = 0) -> EvaluationSample:
    """The sample with the labels of a level; the same object where none are needed.

    With noise, ``labels["noise_ratio"]`` is the rate. An attacked sample has its payload in ``metadata["payload"]`` and
    the kind of attack in ``labels["payload"]``. Where no relevant document can be left, declining is right:
    ``labels["answerable"]`` is false, and ``metadata["perturbation"]`` gives the reason. An arm is in
    ``labels["arm"]``; only in ``edited`` does the sample keep its wrong answer, by which metrics detect
    counterfactual documents.
    """
    if sweep.kind == ARMS_KIND:
        metadata = _as_dict(sample.metadata)
        if level != "edited":
            metadata.pop("wrong_answer", None)
        return replace(sample, labels={**sample.labels, "arm": str(level)}, metadata=metadata)
    labels: dict[str, Any] = dict(sample.labels)
    metadata = sample.metadata
    if sweep.kind == "noise":
        if level:
            labels["noise_ratio"] = level
        else:
            labels.setdefault("noise_ratio", level)  # nothing is changed at rate 0: the sample's own label stays
    perturbation = sweep.perturbation(level, seed)
    attack = choose_payload(sample, perturbation.inject, seed, sweep.payloads)
    if attack is not None:
        labels[PAYLOAD] = attack["kind"]
        metadata = {**_as_dict(metadata), PAYLOAD: attack}
    if removes_all_relevant(sample, perturbation) and is_unanswerable(sample) is False:
        labels["answerable"] = False
        metadata = {**_as_dict(metadata), "perturbation": f"{sweep.label(level)}: nothing relevant is left"}
    if labels == sample.labels:
        return sample
    return replace(sample, labels=labels, metadata=metadata)


def arm_variant(sample: EvaluationSample, *, of_base: bool, is_false: bool) -> EvaluationSample:
    """A sample of one arm for the joint evaluation of all arms: a variant of the sample of the first arm.

    ``is_false`` says whether its documents were counterfactual; that requires a document with the right answer.
    """
    arm, labels, metadata = sample.labels["arm"], dict(sample.labels), _as_dict(sample.metadata)
    if not is_false:
        metadata.pop("wrong_answer", None)
    cluster = sample.cluster
    if of_base:
        return replace(sample, labels=labels, metadata=metadata, cluster_id=cluster)
    if is_unanswerable(sample):
        labels["answerable"] = False  # its scenario said so, and is replaced below
    labels["scenario"] = "false_documents" if is_false else f"{arm}_documents"
    labels["variant_of"] = sample.sample_id
    name = f"{sample.sample_id} [{arm}]"
    return replace(sample, sample_id=name, labels=labels, metadata=metadata, cluster_id=cluster)


def _as_dict(metadata: object) -> dict[str, Any]:
    return dict(metadata) if isinstance(metadata, Mapping) else {}


# --- retrievers and systems whose rankings are perturbed -------------------------------------------------------------


class _PerturbingRetriever:
    """Calls a sync or async retriever and perturbs its ranking."""

    retrieve: Callable[..., Any]
    """Sync or async, like that of the wrapped retriever."""

    def __init__(
        self,
        retriever: object,
        perturber: Perturber,
        sample_of: Callable[[str], EvaluationSample],
        keep_record: Callable[[str, PerturbationRecord], None],
    ) -> None:
        """``sample_of`` gives the sample of a query; the record of each perturbed ranking goes to ``keep_record``."""
        inner = getattr(retriever, "retrieve", None)
        async_retrieve = getattr(retriever, "aretrieve", None)
        if isinstance(retriever, type) or not (callable(inner) or callable(async_retrieve)):
            type_text = "a class" if isinstance(retriever, type) else f"a {display_class_name(retriever)}"
            raise BadTypeError(f"a retriever is an object with a method retrieve(query, *, top_k), not {type_text}")
        self._retriever, self._perturber = retriever, perturber
        self._sample_of, self._keep_record = sample_of, keep_record
        if callable(inner):
            self.retrieve = self._wrap_async(inner) if is_async(inner) else self._wrap_sync(inner)
        if callable(async_retrieve):
            self.aretrieve = self._wrap_async(async_retrieve)

    def __getattr__(self, name: str) -> Any:
        # Other attributes of the retriever; private names are looked up before it is set.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._retriever, name)

    def _wrap_sync(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def retrieve(query: str, *args: Any, **options: Any) -> Any:
            return self._perturb(query, inner(query, *args, **options))

        return retrieve

    def _wrap_async(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        async def retrieve(query: str, *args: Any, **options: Any) -> Any:
            return self._perturb(query, await inner(query, *args, **options))

        return retrieve

    def _perturb(self, query: str, retrieved: Any) -> Any:
        documents, record = self._perturber.apply(self._sample_of(query), retrieved)
        self._keep_record(query, record)
        return documents


class PerturbedRetriever(_PerturbingRetriever):
    """A retriever that adds noise, drops relevant documents or perturbs its rankings otherwise, at given rates.

    The perturbation of a sample depends on the seed, its id and the kind only, not on the order of calls or their
    concurrency. A change at one rate also occurs at every higher one. A rate of 0 changes nothing.

    The retriever has ``retrieve(query, *, top_k)``, or is one of LangChain, LlamaIndex or Haystack. ``samples``
    give the gold of each query; any other query has no gold. Noise is drawn from the ``corpus`` (documents, or an
    ``io.corpus.Corpus``), else from the samples' documents that have a text. ``edit`` makes a counterfactual
    document; without it, ``metadata["wrong_answer"]`` replaces the right answer. ``arm`` sets the rates: ``none`` for
    no documents, ``original`` for the retrieved ones, ``edited`` for counterfactual ones.

    Example:
        >>> class Fixed:
        ...     def retrieve(self, query, *, top_k):
        ...         return [RetrievedDocument(Document("ada"), 1.0, 1)]
        >>> PerturbedRetriever(Fixed(), drop=1.0, samples=samples).retrieve("Who wrote it?", top_k=5)
        []
    """

    def __init__(
        self,
        retriever: object,
        *,
        noise: float = 0.0,
        drop: float = 0.0,
        counterfactual: float = 0.0,
        empty: float = 0.0,
        shuffle: float = 0.0,
        duplicate: float = 0.0,
        inject: float = 0.0,
        arm: str | None = None,
        samples: Iterable[EvaluationSample] = (),
        corpus: CorpusLike | Iterable[Document] | None = None,
        edit: DocumentEdit | None = None,
        seed: int = 0,
    ) -> None:
        perturbation = Perturbation(
            noise, drop, counterfactual, empty, shuffle, duplicate=duplicate, inject=inject, seed=seed
        )
        if arm is not None:
            if perturbation.rates:
                raise BadValueError(f"give an arm or rates, not both: the arm '{arm}' sets the rates")
            perturbation = Perturbation.from_arm(arm, seed)
        sample_list = list(samples)
        pool = NoisePool.from_samples(sample_list) if corpus is None else NoisePool.from_documents(corpus)
        super().__init__(adapt(retriever), Perturber(perturbation, pool, edit), self._find_sample, self._record)
        self._by_query: dict[str, EvaluationSample] = {}
        for sample in sample_list:
            self._by_query.setdefault(sample.query, sample)
        self.done: dict[str, PerturbationRecord] = {}
        """The latest record by sample id, or by query where no sample has it."""

    @property
    def perturbation(self) -> Perturbation:
        """The rates and the seed."""
        return self._perturber.perturbation

    def _find_sample(self, query: str) -> EvaluationSample:
        return self._by_query.get(query) or EvaluationSample(query, query)

    def _record(self, query: str, record: PerturbationRecord) -> None:
        self.done[self._find_sample(query).sample_id] = record


# --- systems with a perturbed retriever; each output records the changes of its documents ----------------------------

PERTURBATION = "perturbation"
"""The key of the record in an output's ``extra``."""
_NEEDS_RETRIEVER = (
    "to perturb documents, the retriever must be accessible: give a pair (retriever, generator), an object with "
    "retrieve() and generate(), or one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem"
)


def require_retriever(system: object) -> SystemParts:
    """The parts of a system; raises where it has no accessible retriever. It is not called."""
    parts = split_system(system, _NEEDS_RETRIEVER)
    if parts.retriever is None:
        why = "has generate() and no retriever" if hasattr(system, "generate") else "retrieves by itself"
        raise BadTypeError(f"{_NEEDS_RETRIEVER}; {type(system).__name__} {why}")
    as_system(parts.build(parts.retriever))
    return parts


def perturbed_system(system: object, perturber: Perturber) -> System:
    """The system with its retriever perturbed for each sample; nothing else is changed."""
    parts = require_retriever(system)

    def build(sample: EvaluationSample, records: list[PerturbationRecord]) -> System:
        def keep_record(_: str, record: PerturbationRecord) -> None:
            records.append(record)

        return as_system(parts.build(_PerturbingRetriever(parts.retriever, perturber, lambda _: sample, keep_record)))

    async def call(sample: EvaluationSample, top_k: int) -> Any:
        records: list[PerturbationRecord] = []
        try:
            output = build(sample, records).call(sample, top_k)
            return _attach_records(records, perturber.perturbation, await output if probe.is_async else output)
        except GenerationFailedError as error:
            error.output = _attach_records(records, perturber.perturbation, error.output)
            raise

    probe = build(EvaluationSample("", ""), [])
    if probe.is_async:
        return System(probe.called, True, call)
    return System(probe.called, False, lambda sample, top_k: run_without_waiting(call(sample, top_k)))


def _attach_records(records: list[PerturbationRecord], perturbation: Perturbation, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # the caller reports the error
    settings = {"rates": perturbation.rates, "seed": perturbation.seed}
    extra = {**output.extra, PERTURBATION: {**settings, **_merge_records(records)}}
    return replace(output, extra=extra if records else {**extra, RETRIEVER_NOT_CALLED: True})


def _merge_records(records: list[PerturbationRecord]) -> PerturbationRecord:
    """The merged record of all rankings of one answer; usually there is one."""
    merged: PerturbationRecord = {}
    for record in records:
        for name, value in record.items():
            merged[name] = merged[name] + value if name in merged else value
    return merged
