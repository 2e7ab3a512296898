"""Token classifiers that mark unsupported parts of an answer, character by character, in windows over the evidence."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..errors import BadValueError
from ..features.embeddings import Floats, InferenceFailure
from ..options import Ge, NonEmpty
from .encoding import (
    TokenisedTexts,
    count_tokens,
    encodable,
    pad_batch,
    plain_backend,
    run_in_batches,
    split_by_tokens,
    token_budget,
)
from .loading import LoadedModel, ModelSource, build_with_options, given_options, label_index, load_token_classifier

Pair = tuple[str, str]
"""The context of a window, and the part of the answer that it checks."""

TEMPLATES = {
    # The question-answering prompt of RAGTruth, on which the English models of LettuceDetect were trained.
    "ragtruth": (
        "Briefly answer the following question:\n{question}\n"
        "Bear in mind that your response should be strictly based on the following {count} passages:\n{passages}\n"
        "In case the passages do not contain the necessary information to answer the question, please reply with: "
        '"Unable to answer based on given passages."\noutput:'
    ),
    # The layout of the second generation of these models.
    "user_request": "User request: {question}\n\n{documents}",
}
"""Named templates of the context."""
_SLOT = re.compile(r"\{(question|passages|documents|count)\}")
_MIN_ROOM = 8
"""Tokens that a window must have for documents at least."""
_CPU_TOKENS = 1 << 10
"""Tokens of a batch on a CPU: eight windows of 512 tokens at once take 1.4 times as long as one after the other."""
_SPARE = 3
"""Tokens reserved beside each document: texts that are joined may have a few more tokens than apart."""


class SpanInput(NamedTuple):
    """What a token classifier reads of one sample."""

    question: str
    documents: tuple[str, ...]
    answer: str


class Window(NamedTuple):
    """One input of the model: the question with some documents, and the answer or a part of it."""

    context: str
    part: str
    start: int
    """Where the part begins in the answer."""
    cut: bool = False
    """Whether the question was truncated."""

    @property
    def pair(self) -> Pair:
        """The two texts that the model reads."""
        return self.context, self.part


@dataclass(frozen=True)
class TokenClassifier(ModelSource):
    """A model that says for each token of an answer whether the evidence supports it, as those of LettuceDetect do.

    It reads two segments: the question with the documents, arranged by ``template``, and the answer. ``template`` is
    ``ragtruth``, ``user_request``, or a text with ``{question}`` and either ``{passages}`` (numbered, one per line) or
    ``{documents}`` (with a blank line between them); ``{count}`` is their number. What is longer than ``window``
    tokens, or than the model reads, is split. ``label`` names the label of unsupported tokens where the config of the
    model does not say it.
    """

    window: Annotated[int, Ge(32)] = field(default=4096, kw_only=True)
    template: Annotated[str, NonEmpty()] = field(default="ragtruth", kw_only=True)
    label: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        slots = _SLOT.findall(self._layout)
        evidence = [slot for slot in slots if slot in ("passages", "documents")]
        if slots.count("question") != 1 or len(evidence) != 1:
            raise BadValueError(
                f"template must be one of {', '.join(TEMPLATES)}, or a text with {{question}} once and either "
                f"{{passages}} or {{documents}} once; not {self.template!r:.80}"
            )

    @classmethod
    def parse(cls, options: object) -> TokenClassifier:
        """The model that a plan describes, by its path or its options."""
        is_path = isinstance(options, (str, os.PathLike))
        return build_with_options(cls, "token_classifier", {"model": options} if is_path else options)

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        return {"token_classifier": given_options(self)}

    @property
    def identity(self) -> str:
        """Shown in signatures: the model, its window, and the options that are not defaults."""
        digest = hashlib.sha256(self.template.encode()).hexdigest()[:8]
        parts = [super().identity, f"window {self.window}"]
        parts += [] if self.template == "ragtruth" else [self.template if self.template in TEMPLATES else digest]
        parts += [] if self.label is None else [f"label={self.label}"]
        return " ".join(parts).replace("|", "/")

    @property
    def _layout(self) -> str:
        return TEMPLATES.get(self.template, self.template)

    def loaded(self) -> LoadedModel:
        """The model in memory."""
        return load_token_classifier(self, purpose="marking unsupported spans with a model")

    def require_ready(self) -> None:
        """Raise unless packages and model are available, with a label for unsupported tokens and room for documents."""
        loaded = self.loaded()
        unsupported_index(loaded, self.label)
        self._require_room(loaded)

    # --- windows -----------------------------------------------------------------------------------------------------

    def context(self, question: str, documents: Sequence[str]) -> str:
        """The first segment: the question and the documents in their layout."""
        values = {
            "question": question,
            "passages": "\n".join(f"passage {number}: {text}" for number, text in enumerate(documents, 1)),
            "documents": "\n\n".join(documents),
            "count": str(len(documents)),
        }
        return _SLOT.sub(lambda slot: values[slot[1]], self._layout)

    def windows(self, inputs: Sequence[SpanInput]) -> list[list[Window]]:
        """The windows of each input.

        One window has everything if that fits. Otherwise an answer of more than half of the window is split into
        consecutive parts, and each part is read with each group of documents: as many as fit, in their order. A
        document that does not fit alone is split into pieces that overlap by an eighth. A question of more than a
        quarter of the window is truncated.
        """
        loaded = self.loaded()
        limit = self._limit(loaded)
        whole = [Window(self.context(given.question, given.documents), given.answer, 0) for given in inputs]
        # There are hardly more tokens than bytes, so that most texts need not be counted.
        unsure = [row for row, window in enumerate(whole) if sum(map(_num_bytes, window.pair)) > limit - _SPARE]
        counts = count_tokens(loaded, [text for row in unsure for text in whole[row].pair])
        windows = [[window] for window in whole]
        for row, sizes in zip(unsure, zip(counts[::2], counts[1::2], strict=True), strict=True):
            if sum(sizes) > limit:
                windows[row] = self._split(loaded, inputs[row])
        return windows

    def _limit(self, loaded: LoadedModel) -> int:
        """Tokens of a window for texts, beside those that separate the segments."""
        return self._max_length(loaded) - int(loaded.tokenizer.num_special_tokens_to_add(pair=True))

    def _max_length(self, loaded: LoadedModel) -> int:
        return min(self.window, loaded.max_length)

    def _require_room(self, loaded: LoadedModel) -> int:
        """The tokens of the template; raises if it leaves no room for documents."""
        limit = self._limit(loaded)
        (frame,) = count_tokens(loaded, [self.context("", ())])
        if limit - limit // 2 - limit // 4 - frame < _MIN_ROOM:
            raise BadValueError(
                f"a window of {self._max_length(loaded)} tokens is too small for the template of {frame} tokens beside "
                "a question, an answer and documents; use a larger window or a shorter template"
            )
        return frame

    def _split(self, loaded: LoadedModel, given: SpanInput) -> list[Window]:
        limit = self._limit(loaded)
        frame = self._require_room(loaded)
        ends = split_by_tokens(loaded, given.question, limit // 4)
        question, cut = given.question[: ends[0][1]], len(ends) > 1
        windows = []
        for start, end in split_by_tokens(loaded, given.answer, limit // 2):
            part = given.answer[start:end]
            if not part.strip():
                continue
            room = limit - frame - sum(count_tokens(loaded, [question, part])) - _SPARE
            groups = self._groups(loaded, given.documents, max(room, _MIN_ROOM))
            windows += [Window(self.context(question, group), part, start, cut) for group in groups]
        return windows

    def _groups(self, loaded: LoadedModel, documents: Sequence[str], room: int) -> list[list[str]]:
        """The documents in consecutive groups of at most ``room`` tokens; long documents in pieces."""
        heading = _SPARE
        if "{passages}" in self._layout:
            heading += count_tokens(loaded, [f"passage {len(documents)}: "])[0]
        size = max(room - heading, 1)
        pieces: list[str] = []
        for text in documents:
            pieces += [text[start:end] for start, end in split_by_tokens(loaded, text, size, overlap=size // 8)]
        groups: list[list[str]] = []
        used = room
        for piece, tokens in zip(pieces, count_tokens(loaded, pieces), strict=True):
            if used + tokens + heading > room:
                groups.append([])
                used = 0
            groups[-1].append(piece)
            used += tokens + heading
        return groups

    # --- inference ---------------------------------------------------------------------------------------------------

    def probabilities(self, pairs: list[Pair]) -> list[tuple[Floats, bool] | InferenceFailure]:
        """Per character of the second text the probability that it is unsupported, and whether the first was cut.

        A character of several tokens gets the highest of their probabilities; one without a token is NaN.
        """
        import torch

        loaded = self.loaded()
        label = unsupported_index(loaded, self.label)
        with plain_backend(loaded) as backend:
            backend.enable_truncation(self._max_length(loaded), strategy="only_first")
            encodings = backend.encode_batch([(encodable(context), encodable(other)) for context, other in pairs])
        has_types = "token_type_ids" in loaded.tokenizer.model_input_names
        tokens = TokenisedTexts(
            [encoding.ids for encoding in encodings],
            [encoding.type_ids for encoding in encodings] if has_types else None,
            [bool(encoding.overflowing) for encoding in encodings],
        )
        left = loaded.tokenizer.padding_side == "left"

        def run(indices: list[int]) -> Sequence[Floats]:
            with torch.inference_mode():
                logits = loaded.model(**pad_batch(tokens, indices, loaded)).logits.double()
            table = logits.softmax(dim=-1)[..., label].cpu().numpy()
            lengths = [len(tokens.ids[index]) for index in indices]
            return [row[-length:] if left else row[:length] for row, length in zip(table, lengths, strict=True)]

        budget = _CPU_TOKENS if loaded.device == "cpu" else token_budget(loaded.device)
        rows = run_in_batches(tokens.lengths, run, tokens=budget, max_texts=self.batch_size)
        return [
            row if isinstance(row, InferenceFailure) else self._by_character(row, encoding, part, cut)
            for row, encoding, (_, part), cut in zip(rows, encodings, pairs, tokens.cut, strict=True)
        ]

    def _by_character(self, row: Floats, encoding: Any, part: str, cut: bool) -> tuple[Floats, bool] | InferenceFailure:
        characters = np.full(len(part), np.nan)
        for probability, (start, end), segment in zip(
            row.tolist(), encoding.offsets, encoding.sequence_ids, strict=True
        ):
            if segment == 1:
                if probability != probability:
                    return InferenceFailure("not_a_number", f"the model {self.model} gave no number for a token")
                characters[start:end] = np.fmax(characters[start:end], probability)
        return characters, cut


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def unsupported_index(loaded: LoadedModel, label: str | None) -> int:
    """Index of the label of unsupported tokens: by its name in the model's config, else the second of two."""
    if label is None and set(loaded.model.config.id2label.values()) == {"LABEL_0", "LABEL_1"}:
        label = "LABEL_1"  # unnamed labels: 0 is supported, 1 is not, as in LettuceDetect
    advice = "name the one with label, or use a model that detects hallucinations"
    return label_index(loaded, label, "hallucinat|unsupported", "unsupported", advice)
