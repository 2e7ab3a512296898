"""``auepora pool``: pool the retrieved documents of several runs for grading; draw some of them for people."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from .console import echo, echo_err, quiet_option
from .options import complete_run, open_store, refuse_input_as_output, store_option

if TYPE_CHECKING:
    from ..annotate.pool import Pool, PooledRuns
    from ..core.types import EvaluationSample


DEPTH = 10
"""Default number of documents that are pooled per run and query."""


@click.command(name="pool")
@click.argument("runs", nargs=-1, required=True, shell_complete=complete_run)
@click.option(
    "--depth", type=click.IntRange(min=1), default=DEPTH, show_default=True, help="Documents per run and query."
)
@click.option(
    "--dataset", type=click.Path(), help="Dataset with the questions; default: the samples of the stored runs."
)
@click.option("--topics", type=click.Path(), help="Questions of TREC runs, one per line: id, tab, text.")
@click.option("--corpus", type=click.Path(), help="JSONL file with the texts of documents given by id.")
@click.option("--qrels", type=click.Path(), help="Qrels with existing grades, in addition to the gold of the samples.")
@click.option("--new-only", is_flag=True, help="Leave out documents with a grade instead of marking them.")
@click.option("--ignore-gold", is_flag=True, help="Ignore the gold of the samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order of documents, and of --draw.")
@click.option(
    "--draw",
    "drawn",
    type=click.IntRange(min=1),
    metavar="N",
    help="Draw N pairs of question and document for people to grade; --qrels has the grades of a model.",
)
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="With --draw: precision@k, recall@k or ndcg@k to correct by the grades; repeatable. Default: all three at 10.",
)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@click.option("-o", "--output", type=click.Path(), default="pool.jsonl", show_default=True, help="File to write.")
def command(
    runs: tuple[str, ...],
    depth: int,
    dataset: str | None,
    topics: str | None,
    corpus: str | None,
    qrels: str | None,
    new_only: bool,
    ignore_gold: bool,
    seed: int,
    drawn: int | None,
    metrics: tuple[str, ...],
    store: str | None,
    as_json: bool,
    output: str,
) -> None:
    """Pool the top documents of several RUNs: for each question, the documents that any run returned, each once.

    A RUN is a stored run, a TREC run file or a file of outputs. The documents of a question are in random order. Grade
    the pool with `auepora judge relevance`.

    With --draw, people grade some documents after a model graded all. The file has the drawn documents, without the
    grade of the model; fill in "grade" in the order of the file. The file with the suffix .draw.json has the
    probability of each document. `auepora rescore --qrels --grades` corrects metrics by them.

    \b
    auepora pool bm25 dense hybrid --depth 10 -o pool.jsonl
    auepora pool bm25.run dense.run --topics topics.tsv --corpus corpus.jsonl
    auepora pool bm25 dense rerank --qrels qrels.txt --new-only -o more.jsonl
    auepora pool bm25 dense --qrels qrels.txt --draw 300 -m precision@10 -o grade.jsonl
    """
    from ..annotate.pool import PooledRuns, gold_grades, is_outputs_file, pool_outputs, write_pool
    from ..io.grades import provenance_path, read_grades

    files = [run for run in runs if is_outputs_file(run)]
    stored = [run for run in runs if run not in files]
    if drawn is not None and (new_only or qrels is None):
        raise click.UsageError("--draw needs the grades of a model for all documents: give --qrels, without --new-only")
    if metrics and drawn is None:
        raise click.UsageError("-m is used with --draw")
    if dataset is not None and topics is not None:
        raise click.UsageError("give --dataset or --topics, not both")
    if not stored and dataset is None and topics is None:
        raise click.UsageError("files contain no questions: give --dataset or --topics")
    refuse_input_as_output(output, [*files, *(one for one in (dataset, topics, corpus, qrels) if one is not None)])
    if qrels is not None:
        refuse_input_as_output(output, [str(provenance_path(qrels))])
    sources = PooledRuns()
    with ExitStack() as open_files:
        given = _questions(dataset, topics)
        if given is not None:
            sources.add_samples(given, str(dataset or topics))
        if stored:
            found = open_files.enter_context(open_store(store, output=output))
            records = [found.find(run) for run in stored]
            sources.add_stored(found, records, with_samples=given is None)
        for path in files:
            sources.add_file(path)
        samples = list(sources.samples.values())
        known = {} if ignore_gold else gold_grades(samples)
        if qrels is not None:
            known |= read_grades(qrels)
        if corpus is not None:
            _add_corpus_texts(sources, corpus, open_files)
        pool = pool_outputs(samples, sources.runs, depth=depth, judged=known, new_only=new_only, seed=seed)
    if drawn is not None:
        _draw(pool, drawn, metrics, seed, output, as_json=as_json)
        return
    write_pool(output, pool.documents)
    echo(json.dumps({**pool.to_dict(), "file": output}, indent=2, ensure_ascii=False) if as_json else _summary(pool))
    for warning in _warnings(pool):
        echo_err(warning)
    echo_err(f"wrote {output}")


def _draw(pool: Pool, n: int, metrics: tuple[str, ...], seed: int, output: str, *, as_json: bool) -> None:
    """Draw pairs for people, and write them with the record of the draw."""
    from ..annotate.draws import draw_path
    from ..annotate.pool import correctable_metrics, draw_pairs, write_drawn_pairs
    from ..annotate.relevance import DEFAULT_METRICS
    from ..core.conventions import Conventions
    from .options import parse_specs

    chosen = correctable_metrics(parse_specs(metrics) or DEFAULT_METRICS, Conventions.of())
    draw = draw_pairs(pool, chosen, n, seed=seed)
    is_new = write_drawn_pairs(output, pool, draw)
    known = sum(one.grade is not None for one in draw.pairs)
    queries = len({one.sample_id for one in draw.order})
    if as_json:
        counts = {"draw": draw.id, "pairs": len(draw.pairs), "known_before": known, "drawn": len(draw.order)}
        record = {"queries": queries, "metrics": list(draw.metrics), "seed": seed, "file": output}
        echo(json.dumps({**counts, **record, "draw_file": str(draw_path(output))}, indent=2, ensure_ascii=False))
    else:
        before = f"; people graded {known:,} before" if known else ""
        of_pairs = f"{len(draw.order):,} of {len(draw.pairs):,} pairs drawn, of {queries:,} queries{before}"
        echo(f"{of_pairs}\nfor {', '.join(draw.metrics)}")
    echo_err(f"wrote {output} and {draw_path(output)}" if is_new else f"{output} has this draw already and was kept")


def _questions(dataset: str | None, topics: str | None) -> list[EvaluationSample] | None:
    from ..core.types import EvaluationSample
    from ..io.join import load_dataset
    from ..io.trec_format import load_topics

    if topics is not None:
        return [EvaluationSample(query, text) for query, text in load_topics(topics).items()]
    return None if dataset is None else list(load_dataset(dataset))


def _add_corpus_texts(sources: PooledRuns, corpus: str, open_files: ExitStack) -> None:
    """Add the texts of a corpus to documents that are given by id."""
    from ..io.corpus import Corpus, CorpusJoin

    corpus_join = CorpusJoin(open_files.enter_context(Corpus.open(corpus)))
    sources.runs = {
        name: ((sample_id, corpus_join.fill_output(output)) for sample_id, output in outputs)
        for name, outputs in sources.runs.items()
    }


def _summary(pool: Pool) -> str:
    from ..render.tables import table

    rows = [
        [name, str(share.queries), str(share.failed), str(share.documents), str(share.alone)]
        for name, share in pool.runs.items()
    ]
    shown = table(rows, headers=["run", "queries", "failed", "documents", "only here"], right=(1, 2, 3, 4))
    total, judged = len(pool.documents), pool.num_judged
    each = f" ({total / pool.num_queries:.1f} a query)" if pool.num_queries else ""
    known = f"; {judged:,} judged already, {total - judged:,} to judge" if judged else ""
    left = f"; {pool.num_left_out:,} judged already and left out" if pool.num_left_out else ""
    return f"{shown}\n\n{pool.num_queries:,} queries, {total:,} documents{each} of depth {pool.depth}{known}{left}"


def _warnings(pool: Pool) -> list[str]:
    warnings = []
    if pool.num_without_text:
        warnings.append(f"{pool.num_without_text:,} documents have no text and cannot be graded: give --corpus")
    if pool.num_other_text:
        warnings.append(f"{pool.num_other_text:,} documents have several texts: that of the first run is used")
    if pool.unknown:
        warnings.append(
            f"{len(pool.unknown):,} queries of the runs are not among the questions: {pool.unknown[0]}, ..."
        )
    return warnings
