"""``auepora rescore``: compute metrics on stored outputs, without calling the system."""

from __future__ import annotations

import click

from ..core.types import TargetCategory
from ..engine.gold_match import MatchChoice
from .console import echo_err, quiet_option
from .help_pages import Command
from .judge_options import (
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    StopOptions,
    add_judged,
    exit_with_errors,
    judge_options,
    run_failure,
    scoring_judge_options,
    stop_options,
)
from .judge_usage import preview_text
from .options import (
    ExecutorChoice,
    complete_run,
    executor_options,
    match_option,
    open_store,
    output_format,
    parse_specs,
    raw_option,
    refuse_input_as_output,
    render_results,
    show_warnings,
    store_option,
    target_option,
    write_out,
)
from .score import PRESETS


@click.command(name="rescore", cls=Command)
@click.argument("run", shell_complete=complete_run)
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Metric, such as recall@5; repeatable. Default: the metrics of the plan of the run.",
)
@target_option()
@click.option(
    "--conventions",
    type=click.Choice(PRESETS),
    metavar="PRESET",
    help=f"Conventions of the metrics; {', '.join(PRESETS)}; default: those of the plan.",
)
@match_option(None, "default: as in the run. auto decides again; the plan of the run stays")
@click.option(
    "--slice",
    "slices",
    multiple=True,
    metavar="PATH",
    help="Break down results by labels.<key> or metadata.<key>; repeatable.",
)
@click.option("--qrels", type=click.Path(), help="Use the grades of this file as gold; see `auepora judge relevance`.")
@click.option("--grades", type=click.Path(), help="Human grades for drawn documents, which correct those of --qrels.")
@click.option("--draw", type=click.Path(), help="The draw of --grades; default: the .draw.json file next to them.")
@click.option(
    "--corpus",
    type=click.Path(),
    help="JSONL file with the documents that answers may cite; default: the corpus of the plan.",
)
@click.option("--incomplete", is_flag=True, help="Score an incomplete run; missing outputs count as failures.")
@executor_options
@judge_options
@scoring_judge_options
@stop_options
@click.option(
    "--continue-judging",
    is_flag=True,
    help="Judge the rest of a run that stopped early, in the same order; the first verdict stands.",
)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .csv, .md, else the table).")
@raw_option
def command(
    run: str,
    metrics: tuple[str, ...],
    targets: tuple[TargetCategory, ...],
    conventions: str | None,
    match: MatchChoice | None,
    slices: tuple[str, ...],
    qrels: str | None,
    grades: str | None,
    draw: str | None,
    corpus: str | None,
    incomplete: bool,
    executor: ExecutorChoice,
    judge: JudgeOptions,
    judging: JudgingOptions,
    stop: StopOptions,
    continue_judging: bool,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Compute new or changed metrics on the stored outputs of RUN. The system is not called.

    The new values are stored next to the old ones; each has its signature. Judge metrics
    use the judge of the plan of the run, of --plan, or of --judge-model. --set changes a key of the plan of the run for
    this command, if it says how outputs are scored. --qrels replaces the gold of the run; without
    -m, only metrics that need gold are computed then. With --grades, precision@k, recall@k and ndcg@k are estimated
    from the grades of a model in --qrels and human grades for the documents that `auepora pool --draw` drew.

    \b
    auepora rescore latest -m bleu -m chrf
    auepora rescore latest --target faithfulness --judge-model small --judge-url http://127.0.0.1:8080/v1
    auepora rescore run_01HX -m map@10:conventions=trec
    auepora rescore latest --set conventions.empty_gold=zero
    auepora rescore latest --qrels qrels.txt -m ndcg@10
    auepora rescore latest --qrels qrels.txt --grades grade.jsonl -m precision@10
    auepora rescore latest -m llm_correctness --until-decided main --delta 0.05
    auepora rescore latest --continue-judging
    auepora rescore latest -m llm_faithfulness --judge-model small --judge-url http://127.0.0.1:8080/v1 --preview
    """
    from ..core.targets import find_targets
    from ..plan.model import Scoring
    from ..runs.judging import judges_of_run
    from ..runs.scoring import rescore, with_settings
    from ..runs.sequential import EarlyStopping, StopRequest
    from ..store.records import conventions_label

    executor.check()
    if qrels is not None and judging.preview:
        raise click.UsageError(
            "--preview estimates the judging of answers, which --qrels does not change: leave it out"
        )
    if (grades is not None or draw is not None) and (qrels is None or grades is None or slices or corpus is not None):
        raise click.UsageError("--grades needs --qrels, --draw needs --grades, and neither takes --slice or --corpus")
    if grades is not None and targets:
        raise click.UsageError("--grades estimates retrieval metrics: name them with -m, and leave out --target")
    if grades is not None and (stop.changes() or judging.set_texts):
        raise click.UsageError("--grades calls no judge: leave out --set and the options that stop judging")
    form = output_format(output, as_json=as_json)
    refuse_input_as_output(output, [qrels, corpus, grades, draw])
    with open_store(store, output=output) as found:
        record = found.find(run)
        rules = None if conventions == "auto" else conventions
        if grades is not None:
            from ..grades.partial_grades import partial_grades_text, read_partial_grades, rescore_with_grades

            partial = read_partial_grades(str(qrels), grades, draw)
            estimated = rescore_with_grades(found, record, partial, parse_specs(metrics), conventions=rules)
            text = partial_grades_text(estimated) if form == "table" else render_results(estimated, form, "")
            write_out(text, output)
            echo_err(f"stored with {record.run_id}")
            return
        settings, given = judging.settings | executor.changes(), parse_specs(metrics)
        record, way = with_settings(found, record, settings)
        if "targets" in settings and not given and not targets:
            given, targets = list(record.plan.get("metrics") or ()), find_targets(record.plan["targets"])
        changes = judging.changes(others=True) | stop.changes()
        named = judge.judges(changes, has_plan=True)
        values = record.plan if named is None else named.source.values
        specs, judged = add_judged(given, targets, values.get("resources") or {})
        planned = not specs and not targets
        used = record.plan.get("metrics") if planned else specs
        judges = named or judges_of_run(found, record, used, changes=changes)
        if judging.preview:
            from ..runs.preview import preview_stored

            would, notes = preview_stored(
                found,
                record,
                specs,
                conventions=rules,
                judges=judges,
                until_decided=stop.against is not None,
                planned=planned,
            )
            write_out(preview_text(would, as_json=form == "json", notes=notes), output)
            return
        is_explicit = stop.against is not None
        request = StopRequest(judges.settings.stop, is_explicit=is_explicit, proceed=continue_judging)
        with ScoringProgress() as line:
            results = rescore(
                record,
                specs,
                store=found,
                conventions=rules,
                match=match or way,
                slices=slices or None,
                options=Scoring(**record.plan["scoring"]),
                incomplete=incomplete,
                qrels=qrels,
                corpus=corpus or settings.get("dataset.corpus"),
                judges=judges,
                progress=line.start_scoring(record.num_samples * record.repeats),
                judge_progress=line.start_judging,
                stopping=EarlyStopping(request, line.show_look),
                targets=targets,
                judged=judged,
            )
        show_warnings(results)
        matched = (results.gold_match or {}).get("match", "id")
        footer = f"conventions: {conventions_label(record, rules, match=matched)}"
        write_out(render_results(results, form, footer), output)
        echo_err(f"stored with {record.run_id}")
    if not any(result.defined for result in results):
        exit_with_errors(str(run_failure(results)))
    if results.failure is not None:
        echo_err(f"Warning: {results.failure}")
