"""``auepora label``: label answers, measure agreement, adjudicate. ``auepora pool``: pool documents for grading."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import click
from click.core import ParameterSource

from ..core.types import EvaluationSample, SystemOutputs
from ..grades.pool import Pool, PooledRuns, gold_grades, pool_outputs, write_drawn_pairs, write_pool
from ..labels.draws import PEOPLE_ONLY, draw_path, read_draws
from ..labels.names import check_annotator, release_name
from .console import echo, echo_err, json_text, quiet_option
from .help_pages import Command
from .options import complete_run, open_store, parse_specs, refuse_input_as_output, store_option


@click.command(name="label", cls=Command)
@click.argument("run", required=False, shell_complete=complete_run)
@click.argument("files", nargs=-1, type=click.Path())
@click.option(
    "--n", type=click.IntRange(min=1), default=100, show_default=True, help="Number of samples to draw at random."
)
@click.option("--stratify", metavar="PATH", help="Draw a stratified sample by labels.KEY or metadata.KEY.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same samples.")
@click.option("--annotator", metavar="NAME", help="Name of the annotator; default: your login name.")
@click.option(
    "--labels",
    type=click.Path(),
    default="labels.jsonl",
    show_default=True,
    help="File of labels; samples labelled in it are not shown again.",
)
@click.option("--scale", metavar="LOW-HIGH", help="Numeric scale, such as 1-5, instead of right or wrong.")
@click.option(
    "-m",
    "--metric",
    metavar="NAME",
    help="Metric that labels are compared with; with --for also 'people only'.",
)
@click.option(
    "--for",
    "compared",
    nargs=2,
    metavar="RUN_A RUN_B",
    shell_complete=complete_run,
    help="Label both answers to samples that are drawn for the difference of two runs; without RUN.",
)
@click.option("--delta", type=float, metavar="D", help="With --for: differences up to this count as equal.")
@click.option(
    "--looks",
    type=click.IntRange(min=2),
    metavar="K",
    help="With --for: test the labels at K numbers of samples; default: once, when all are labelled.",
)
@click.option(
    "--history",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="With --for: labels of earlier runs, from which labels are predicted; repeatable.",
)
@click.option("--preview", is_flag=True, help="With --for: print the forecast, and draw nothing.")
@click.option(
    "--sample", "picked", multiple=True, metavar="ID", help="Label this sample, marked as chosen; repeatable."
)
@click.option("--blind", is_flag=True, help="Hide references, names, and ids and relevance of documents.")
@click.option("--tuning", is_flag=True, help="Mark the labels as used to tune a prompt; calibration refuses them.")
@click.option(
    "--provenance",
    type=click.Choice(["human", "model"]),
    default="human",
    show_default=True,
    help="Whether a person or a model labels; labels of a model are marked, and calibration refuses them.",
)
@click.option(
    "--plain", is_flag=True, expose_value=False, hidden=True, help="No effect: the form is always plain lines."
)
@click.option("--agreement", is_flag=True, help="Report the agreement between the annotators of FILES; without RUN.")
@click.option("--adjudicate", is_flag=True, help="Label the answers on which the annotators of FILES disagree.")
@click.option("--release", metavar="NAME", help="Let another browser use this name in --labels; without RUN.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="With --agreement or --preview: print JSON.")
@click.pass_context
def command(
    context: click.Context,
    run: str | None,
    files: tuple[str, ...],
    n: int,
    stratify: str | None,
    seed: int,
    annotator: str | None,
    labels: str,
    scale: str | None,
    metric: str | None,
    compared: tuple[str, str] | None,
    delta: float | None,
    looks: int | None,
    history: tuple[str, ...],
    preview: bool,
    picked: tuple[str, ...],
    blind: bool,
    tuning: bool,
    provenance: Literal["human", "model"],
    agreement: bool,
    adjudicate: bool,
    release: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Label answers of the stored RUN, with one line of input per answer. The same command resumes.

    Prints evidence, question and answer. Type r (right), w (wrong) or a grade, then Enter; ? lists what else can be
    typed. Each label is written to disk before the next answer is shown. A second file records how the samples were
    drawn.

    With --for the samples are drawn where a judge is least certain about the difference of two runs, and both answers
    are labelled without the names of the runs. The forecast comes first; `auepora judge calibrate RUN_A RUN_B` gives
    the verdict when all drawn samples are labelled, or at the looks fixed with --looks. Labels of samples that you pick
    with --sample are kept, and nothing is estimated from them.

    \b
    auepora label latest --n 100 --stratify labels.scenario --annotator ann
    auepora label latest --annotator bob --labels bob.jsonl --scale 1-5
    auepora label latest --provenance model --annotator my-model --labels model.jsonl < replies.txt
    auepora label --for baseline latest --n 40 --preview
    auepora label --for baseline latest --n 40 --labels pairs.jsonl
    auepora label --agreement ann.jsonl bob.jsonl
    auepora label latest --adjudicate ann.jsonl bob.jsonl --labels settled.jsonl
    auepora label --release ann --labels labels/batch.jsonl
    """
    from .label_sessions import LabelSession, print_agreement, print_forecast

    if release is not None:
        if run is not None or agreement or adjudicate or compared is not None:
            raise click.UsageError("--release goes with --labels alone")
        release_name(labels, release)
        echo_err(f"{labels}: the next browser that uses the name {release!r} has it")
        return
    if agreement:
        if adjudicate:
            raise click.UsageError("give --agreement or --adjudicate, not both")
        print_agreement([*([run] if run else []), *files], as_json=as_json)
        return
    given = [f"--{name}" for name in ("delta", "looks", "history", "preview") if _is_given(context, name)]
    if compared is None and given:
        raise click.UsageError(f"{given[0]} goes with --for RUN_A RUN_B")
    if as_json and not preview:
        raise click.UsageError("--json goes with --agreement or --preview")
    _check_session_options(context, run, files, compared, picked, adjudicate=adjudicate)
    if provenance == "model" and annotator is None and not preview:
        raise click.UsageError("name the model that labels with --annotator NAME")
    if provenance == "model" and adjudicate:
        raise click.UsageError("--adjudicate is for a person: a model cannot resolve disagreements between people")

    from ..calibration.label_plans import plan_comparison
    from ..labels.choices import LabelScale
    from ..store.connect import default_store

    name = check_annotator(annotator or login())
    refuse_input_as_output(labels, [default_store(store), *history], option="--labels")
    with open_store(store) as found:
        session = LabelSession(
            found,
            Path(labels),
            name,
            metric=None if metric == PEOPLE_ONLY else metric,
            scale=None if scale is None else LabelScale.of(scale),
            blind=blind,
            tuning=tuning,
            provenance=provenance,
        )
        if compared is not None:
            records = found.find(compared[0]), found.find(compared[1])
            if records[0].run_id == records[1].run_id:
                raise click.UsageError(f"--for names the same run twice, {records[0].run_id}")
            draw = plan_comparison(
                found,
                records,
                metric=metric,
                n=n,
                seed=seed,
                delta=delta,
                looks=looks or 0,
                history=history,
                before=read_draws(labels).get(f"{records[0].run_id} {records[1].run_id}"),
            )
            if preview:
                print_forecast(draw, labels, as_json=as_json)
            else:
                session.run_comparison(records, draw)
            return
        record = found.find(str(run))
        if adjudicate:
            session.run_adjudication(record, files)
        elif picked:
            session.run_picked(record, picked)
        else:
            session.run_draw(record, n=n, stratify=stratify, seed=seed)


def _check_session_options(
    context: click.Context,
    run: str | None,
    files: tuple[str, ...],
    compared: tuple[str, str] | None,
    picked: tuple[str, ...],
    *,
    adjudicate: bool,
) -> None:
    """Refuse combinations of options that cannot be meant."""
    if compared is not None and (run is not None or adjudicate or picked or _is_given(context, "stratify")):
        raise click.UsageError("--for names both runs; leave out RUN, --adjudicate, --sample and --stratify")
    if compared is None and run is None:
        raise click.UsageError("give the RUN to label; `auepora runs` lists them")
    if adjudicate != bool(files):
        raise click.UsageError(
            "--adjudicate takes the labels files of the annotators after the RUN"
            if adjudicate
            else f"there is one RUN and no {files[0]!r} after it; labels files go with --adjudicate or --agreement"
        )
    draw_options = [f"--{name}" for name in ("n", "stratify", "seed") if _is_given(context, name)]
    if adjudicate and draw_options:
        raise click.UsageError(f"{draw_options[0]} draws samples; --adjudicate shows every disagreement")
    if picked and (adjudicate or draw_options):
        raise click.UsageError(f"--sample picks samples; leave out {[*draw_options, '--adjudicate'][0]}")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def login(option: str = "--annotator") -> str:
    """The login name of the user; ``option`` gives another one."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:  # a user without a name
        raise click.UsageError(f"the login name is unknown; use {option} NAME") from error


# --- auepora pool: the retrieved documents of several runs, for grading ----------------------------------------------

DEPTH = 10
"""Default number of documents that are pooled per run and query."""


@click.command(name="pool", cls=Command)
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
def pool_command(
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
    from ..io.grades import provenance_path, read_grades

    files = [run for run in runs if Path(run).is_file()]
    stored = [run for run in runs if run not in files]
    if drawn is not None and (new_only or qrels is None):
        raise click.UsageError("--draw needs the grades of a model for all documents: give --qrels, without --new-only")
    if metrics and drawn is None:
        raise click.UsageError("-m is used with --draw")
    if dataset is not None and topics is not None:
        raise click.UsageError("give --dataset or --topics, not both")
    if not stored and dataset is None and topics is None:
        raise click.UsageError("files contain no questions: give --dataset or --topics")
    refuse_input_as_output(output, [*files, dataset, topics, corpus, qrels])
    if qrels is not None:
        refuse_input_as_output(output, [str(provenance_path(qrels))])
    sources = PooledRuns()
    with ExitStack() as open_files:
        given = _read_questions(dataset, topics)
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
        _draw_pairs(pool, drawn, metrics, seed, output, as_json=as_json)
        return
    write_pool(output, pool.documents)
    echo(json_text({**pool.to_dict(), "file": output}) if as_json else _pool_summary(pool))
    echo_err(*_pool_warnings(pool), f"wrote {output}")


def _draw_pairs(pool: Pool, n: int, metrics: tuple[str, ...], seed: int, output: str, *, as_json: bool) -> None:
    """Draw pairs for people, and write them with the record of the draw."""
    from ..core.conventions import Conventions
    from ..grades.drawn_pairs import DEFAULT_METRICS, correctable_metrics, draw_pairs

    chosen = correctable_metrics(parse_specs(metrics) or DEFAULT_METRICS, Conventions.of())
    draw = draw_pairs(pool, chosen, n, seed=seed)
    is_new = write_drawn_pairs(output, pool, draw)
    known = sum(pair.grade is not None for pair in draw.pairs)
    queries = len({pair.sample_id for pair in draw.order})
    if as_json:
        counts = {"draw": draw.id, "pairs": len(draw.pairs), "known_before": known, "drawn": len(draw.order)}
        record = {"queries": queries, "metrics": list(draw.metrics), "seed": seed, "file": output}
        echo(json_text({**counts, **record, "draw_file": str(draw_path(output))}))
    else:
        before = f"; people graded {known:,} before" if known else ""
        of_pairs = f"{len(draw.order):,} of {len(draw.pairs):,} pairs drawn, of {queries:,} queries{before}"
        echo(f"{of_pairs}\nfor {', '.join(draw.metrics)}")
    echo_err(f"wrote {output} and {draw_path(output)}" if is_new else f"{output} has this draw already and was kept")


def _read_questions(dataset: str | None, topics: str | None) -> list[EvaluationSample] | None:
    from ..io.join import load_dataset
    from ..io.trec_format import load_topics

    if topics is not None:
        return [EvaluationSample(query, text) for query, text in load_topics(topics).items()]
    return None if dataset is None else list(load_dataset(dataset))


def _add_corpus_texts(sources: PooledRuns, corpus: str, open_files: ExitStack) -> None:
    """Add the texts of a corpus to documents that are given by id."""
    from ..io.corpus import Corpus, CorpusJoin

    corpus_join = CorpusJoin(open_files.enter_context(Corpus.open(corpus)))

    def with_texts(outputs: Iterable[tuple[str, SystemOutputs]]) -> Iterator[tuple[str, SystemOutputs]]:
        return ((sample_id, corpus_join.fill_output(output)) for sample_id, output in outputs)

    sources.runs = {name: with_texts(outputs) for name, outputs in sources.runs.items()}


def _pool_summary(pool: Pool) -> str:
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


def _pool_warnings(pool: Pool) -> Iterator[str]:
    if pool.num_without_text:
        yield f"{pool.num_without_text:,} documents have no text and cannot be graded: give --corpus"
    if pool.num_other_text:
        yield f"{pool.num_other_text:,} documents have several texts: that of the first run is used"
    if pool.unknown:
        yield f"{len(pool.unknown):,} queries of the runs are not among the questions: {pool.unknown[0]}, ..."
