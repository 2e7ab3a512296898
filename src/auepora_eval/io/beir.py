"""BEIR folders: ``corpus.jsonl``, ``queries.jsonl`` and judgements per split in ``qrels/<split>.tsv``.

A folder means its split ``test``, else ``dev``, else ``train``, else its only one. The path of a qrels file selects
another split: ``scifact/qrels/train.tsv``. Each file may be compressed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..core.types import EvaluationSample
from ..errors import DataFileError, DuplicateIdError
from ..runtime.files import plain_stem, plain_suffix, read_bytes, read_lines, translate_write_errors, write_lines
from .codec import LineError, encode_sample, encode_samples
from .corpus import Corpus, CorpusJoin
from .formats import Format, find_compressed, looks_like_beir, parse_trec_level, register_format
from .problems import ParsedSample, Problems, RowSchema, decoding_problem, find_struct_problems, quote_text
from .trec import judged_documents, judged_levels
from .values import warn_repeated_keys

_HEADER = ("query-id", "corpus-id", "score")


class _Query(msgspec.Struct, gc=False):
    """A line of ``queries.jsonl``."""

    id: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="_id")
    text: str
    metadata: dict[str, Any] | None = None


_QUERIES: msgspec.json.Decoder[_Query] = msgspec.json.Decoder(_Query)
_SHAPE = RowSchema("samples", {"": ("_id", "text", "metadata")}, "outputs", ())


def resolve_split(path: Path) -> tuple[Path, Path]:
    """Return the folder and the qrels file that ``path`` means: the file itself, or that of the default split."""
    if not path.is_dir():
        return path.parent.parent, path
    folder = path / "qrels"
    found = {plain_stem(file): file for file in sorted(folder.glob("*.tsv*")) if plain_suffix(file) == ".tsv"}
    for split in ("test", "dev", "train"):
        if split in found:
            return path, found[split]
    if len(found) == 1:
        return path, next(iter(found.values()))
    if not found:
        raise DataFileError(folder, None, "there is no file of judgements, such as 'test.tsv', in it")
    raise DataFileError(folder, None, f"name one of the splits, such as {quote_text(str(min(found.values())))}")


def read_samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
    """Yield the judged queries of the split, in the order of its judgements, with the texts of their documents."""
    folder, judgements = resolve_split(path)
    judged, lines = _judgements(judgements, problems)
    queries = _queries(find_compressed(folder, "queries.jsonl"), judged, problems)
    with Corpus.open(find_compressed(folder, "corpus.jsonl"), problems) as corpus:
        corpus_join = CorpusJoin(corpus)
        for query_id, levels in judged.items():
            query = queries.get(query_id)
            if query is None:
                problems.add(judgements, lines[query_id], f"query {quote_text(query_id)} is not in queries.jsonl")
                continue
            sample = EvaluationSample(query_id, query.text, *judged_documents(levels), metadata=query.metadata or {})
            yield ParsedSample(None, corpus_join.fill_sample(sample))
    corpus_join.report(stacklevel=3)


def _judgements(path: Path, problems: Problems) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Return levels by query and document, and the first line of each query."""
    judged: dict[str, dict[str, int]] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(read_bytes(path).decode().split("\n"), start=1):
        cells = tuple(line.strip("\r").split("\t"))
        if not line.strip() or (number == 1 and cells == _HEADER):
            continue
        if len(cells) != 3 or not cells[0] or not cells[1]:
            message = (
                f"expected 3 columns with tabs between them ({', '.join(_HEADER)}), found {quote_text(line.strip())}"
            )
            problems.add(path, number, message)
            continue
        query, doc, level = cells
        try:
            value = parse_trec_level(level.encode())
        except ValueError:
            problems.add(path, number, f"the score (column 3) must be an integer, found {quote_text(level)}")
            continue
        levels = judged.setdefault(query, {})
        lines.setdefault(query, number)
        levels[doc] = max(value, levels.get(doc, value))
    if not judged and not problems.found:
        problems.add(path, None, f"there is no judgement in it; each line must be {', '.join(_HEADER)}")
    return judged, lines


def _queries(path: Path, judged: dict[str, dict[str, int]], problems: Problems) -> dict[str, _Query]:
    """Return the judged queries by id."""
    found: dict[str, _Query] = {}
    for number, line in read_lines(path):
        try:
            query = _QUERIES.decode(line)
        except (ValueError, RecursionError) as error:
            first = decoding_problem(line, error, _SHAPE)
            problems.add_all(path, number, find_struct_problems(line, _Query, _SHAPE, first)[0])
            continue
        warn_repeated_keys(path, number, line, problems)
        if query.id in found:
            message = f"query {quote_text(query.id)} occurs twice; each id may come once"
            problems.add(path, number, message, kind=DuplicateIdError)
        elif query.id in judged:
            found[query.id] = query
    return found


# --- writing ---------------------------------------------------------------------------------------------------------


def save_beir(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write a folder with one split: ``test``, or that of a path such as ``folder/qrels/dev.tsv``.

    The folder is new, or contains only this split: the corpus and the queries of other splits would be lost.
    """
    path = Path(path)
    folder, split = (path.parent.parent, path.name) if path.suffix == ".tsv" else (path, "test.tsv")
    if path.suffix == ".tsv" and path.parent.name != "qrels":
        raise DataFileError(path, None, "name a folder, or the judgements of a split such as 'folder/qrels/dev.tsv'")
    _require_room(folder, split)
    temporary = folder.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with translate_write_errors(folder):
            (temporary / "qrels").mkdir(parents=True)
        _write(samples, temporary, split)
        _move_into_place(temporary, folder, split)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _require_room(folder: Path, split: str) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataFileError(folder, None, "is a file; a BEIR dataset is a folder")
    for place, ours in ((folder, {"corpus.jsonl", "queries.jsonl", "qrels"}), (folder / "qrels", {split})):
        others = {file.name for file in place.iterdir()} - ours if place.is_dir() else None
        if others:
            raise DataFileError(place, None, f"already holds {quote_text(min(others))}; name a new folder")


def _move_into_place(temporary: Path, folder: Path, split: str) -> None:
    with translate_write_errors(folder):
        if not folder.exists():
            os.replace(temporary, folder)
            return
        (folder / "qrels").mkdir(exist_ok=True)
        for name in ("corpus.jsonl", "queries.jsonl", f"qrels/{split}"):
            os.replace(temporary / name, folder / name)


def _write(samples: Iterable[EvaluationSample], folder: Path, split: str) -> None:
    documents: dict[str, dict[str, Any]] = {}
    rows: list[bytes] = ["\t".join(_HEADER).encode()]

    def encode(sample: EvaluationSample) -> bytes:
        kept = replace(sample, reference_answer=None, reference_answers=[], labels={}, history=[], cluster_id=None)
        row: dict[str, Any] = json.loads(encode_sample(kept))
        for doc in [*(row.get("relevant_docs") or ()), *(row.get("candidate_docs") or ())]:
            _add_document(documents, doc)
        for doc_id, level in judged_levels(sample).items():
            rows.append(b"%b\t%b\t%d" % (_cell(sample.sample_id), _cell(doc_id), level))
        return msgspec.json.encode({"_id": row["sample_id"], "text": row["query"], "metadata": row.get("metadata", {})})

    write_lines(folder / "queries.jsonl", encode_samples(samples, encode))
    write_lines(folder / "corpus.jsonl", (msgspec.json.encode(document) for document in documents.values()))
    write_lines(folder / "qrels" / split, rows)


def _add_document(documents: dict[str, dict[str, Any]], doc: dict[str, Any]) -> None:
    """Add a document to the corpus. A document that another sample references by id alone is the same document."""
    metadata = doc.get("metadata", {})
    metadata.pop("relevance", None)
    title, text = metadata.get("title"), doc.get("text", "")
    row: dict[str, Any] = {"_id": doc["doc_id"], "title": "", "text": text}
    # The reader of the corpus puts the title before the text and into the metadata; this undoes it.
    if isinstance(title, str) and title and (text == title or text[:-1].startswith(f"{title}\n")):
        row |= {"title": title, "text": text[len(title) + 1 :]}
        del metadata["title"]
    row |= {key: doc[key] for key in ("metadata", "parent_id", "span") if doc.get(key)}
    known = documents.setdefault(doc["doc_id"], row)
    bare = {"_id": doc["doc_id"], "title": "", "text": ""}
    if known == bare:
        documents[doc["doc_id"]] = row
    elif row not in (known, bare):
        raise LineError(
            f"its document {doc['doc_id']!r} is another than that of an earlier sample; "
            "a corpus holds each document once"
        )


def _cell(text: str) -> bytes:
    if any(sign in text for sign in "\t\n\r"):
        raise LineError(f"the id {text!r:.80} holds a tab or a line end")
    return text.encode()


FORMAT = register_format(
    Format(
        "beir",
        "BEIR: a folder of corpus, queries and judgements",
        looks_like_beir,
        read_samples=read_samples,
        write_samples=save_beir,
        sample_fields=frozenset({"sample_id", "query", "relevant_docs", "candidate_docs", "metadata"}),
        conventions="trec",
    )
)
