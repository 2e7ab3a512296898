"""``auepora bench``: published benchmarks, each as one command."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..bench.entries import Benchmark, all_benchmarks, entry_names, get_benchmark
from ..bench.recognition import describe_file, find_data
from ..errors import AueporaError
from ..render.terminal import blocks_text
from .console import echo, json_text, quiet_option
from .help_pages import Command
from .judge_options import JudgeOptions, ScoringProgress, exit_with_errors, judge_options, make_judge_session
from .main import LazyGroup
from .options import (
    complete_run,
    grouped_options,
    open_store,
    refuse_input_as_output,
    show_warnings,
    store_option,
    target_option,
    write_out,
)

if TYPE_CHECKING:
    from ..bench.reading import Loaded
    from ..bench.scoring import Scored
    from ..core.types import TargetCategory


@click.group(
    name="bench",
    cls=LazyGroup,
    table={
        "Commands": {
            "list": ("bench:list_command", "List the benchmarks, and what each needs."),
            "show": ("bench:show_command", "Show what a benchmark measures, and how."),
            "run": ("bench:run_command", "Compute the numbers of a benchmark for a system."),
            "check": ("bench:check_command", "Compare examples with their published values, or recognise a file."),
        }
    },
)
def command() -> None:
    """Run published benchmarks on their own files, with the numbers of their scripts.

    Nothing is downloaded: bench show says where the files are, and under which licences.

    \b
    auepora bench list
    auepora bench show hotpotqa
    auepora bench run hotpotqa --data hotpot_dev.json --outputs pred.json
    auepora bench check hotpotqa
    """


@click.command(name="list", cls=Command)
@target_option("lists its benchmarks alone")
@click.option("--available", is_flag=True, help="Only those whose data is here.")
def list_command(targets: tuple[TargetCategory, ...], available: bool) -> None:
    """List the benchmarks with their targets, their numbers and what each needs.

    Data is looked for in $AUEPORA_BENCH_DATA/NAME and in the current folder.

    \b
    auepora bench list
    auepora bench list --target noise_robustness
    """
    from ..bench.pages import list_blocks

    wanted = {target.name.lower() for target in targets}
    rows: list[tuple[Benchmark, bool]] = []
    for benchmark in all_benchmarks():
        has_data = _has_data(benchmark)
        if (not wanted or wanted & set(benchmark.heading.targets)) and (has_data or not available):
            rows.append((benchmark, has_data))
    echo(blocks_text(list_blocks(rows)))


def _has_data(benchmark: Benchmark) -> bool:
    try:
        find_data(benchmark, None, None)
    except AueporaError:
        return False
    return True


@click.command(name="show", cls=Command)
@click.argument("name")
def show_command(name: str) -> None:
    """Show what a benchmark measures: paper, licences, files, numbers and how each differs from ours.

    NAME is a benchmark of the list, or the path of a YAML file of your own.

    \b
    auepora bench show rgb
    auepora bench show ./mine.yaml
    """
    from ..bench.pages import show_blocks

    echo(blocks_text(show_blocks(get_benchmark(name))))


@dataclass(frozen=True, slots=True)
class BenchFiles:
    """What a benchmark is run on, from the command line."""

    data: str | None
    outputs: str | None
    system: str | None
    config: str | None
    split: str | None
    limit: int | None
    set_texts: tuple[str, ...]


_files = grouped_options(
    "files",
    BenchFiles,
    {
        "data": click.option("--data", type=click.Path(), help="The benchmark's file or folder; default: looked for."),
        "outputs": click.option(
            "--outputs", type=click.Path(), help="Saved outputs: our JSONL, or the benchmark's own predictions."
        ),
        "system": click.option(
            "--system", metavar="SYSTEM", help="System to call: an import path, a URL or a command."
        ),
        "config": click.option(
            "--config",
            metavar="RUN",
            shell_complete=complete_run,
            help="Call the system of this run with its values; with --system that one. RUN may be one of a sweep.",
        ),
        "split": click.option("--split", metavar="NAME", help="Part of the benchmark; default: by the file."),
        "limit": click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N samples."),
        "set_texts": click.option(
            "--set", "set_texts", multiple=True, metavar="KEY=VALUE", help="Change a setting, such as noise=0.4."
        ),
    },
)


@click.command(name="run", cls=Command)
@click.argument("name")
@_files
@click.option("--strict", is_flag=True, help="Only the published conventions, without our variants beside them.")
@judge_options
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json: JSON) instead of printing.")
def run_command(
    name: str,
    files: BenchFiles,
    strict: bool,
    judge: JudgeOptions,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Compute the numbers of benchmark NAME for saved outputs, or for a system that is called.

    The published numbers are those of the benchmark's script. Where its conventions are doubtful our safer variant
    stands beside the number, and the lines below say how they differ. With --system or --config the plan and the
    samples are written into this folder, and the run is stored with the tag bench:NAME. The exit code is 3 if more than
    half of the samples are system failures.

    \b
    auepora bench run hotpotqa --data hotpot_dev.json --outputs pred.json
    auepora bench run rgb --data en.json --outputs answers.jsonl --set noise=0.4 --strict
    auepora bench run popqa --data popQA.tsv --system my_app.rag:build --limit 100
    auepora bench run popqa --data popQA.tsv --config "choice [512, large]"
    """
    from ..bench.pages import run_blocks
    from ..bench.planning import open_benchmark
    from ..plan.source import parse_settings

    if files.outputs is not None and (files.system is not None or files.config is not None):
        raise click.UsageError("give --outputs, or --system or --config, not both")
    refuse_input_as_output(output, [path for path in (files.data, files.outputs) if path is not None])
    settings = parse_settings(files.set_texts)
    loaded = open_benchmark(name, files.split, files.data, files.outputs, settings=settings, limit=files.limit)
    if files.system is not None or files.config is not None:
        scored = _run_system(loaded, system=files.system, config=files.config, store=store)
    elif len(loaded.missing) == len(loaded.samples):
        raise click.UsageError("none of the samples has an output: give --outputs FILE or --system SYSTEM")
    else:
        scored = _score_saved(loaded, judge)
    show_warnings(scored.results)
    is_json = as_json or (output or "").endswith(".json")
    text = json_text(_run_dict(scored, strict=strict)) if is_json else ""
    write_out(text or blocks_text(run_blocks(scored, strict=strict)), output)
    if scored.results.failure is not None:
        exit_with_errors(scored.results.failure)


def _score_saved(loaded: Loaded, judge: JudgeOptions) -> Scored:
    from ..bench.scoring import judges_of, score_loaded

    judges = judge.judges({})
    if judges is None:
        return score_loaded(loaded)
    with ScoringProgress() as line:
        session = make_judge_session(judges, line)
        built = judges.build([name for name in judges_of(loaded.part) if name in judges.names])
        return score_loaded(loaded, resources=built, judging=session)


def _run_system(loaded: Loaded, *, system: str | None, config: str | None, store: str | None) -> Scored:
    """Write the plan of a benchmark, run it, and take the numbers from the stored run."""
    from ..bench.planning import DOCUMENTS, with_benchmark_documents, write_plan
    from ..bench.scoring import with_numbers
    from ..plan.prepare import read_plan
    from ..plan.source import read_source
    from ..plan.sweep import with_system_of_run, with_values_of_run
    from ..runs.run import open_plan, start_run

    name = loaded.benchmark.name
    plan = Path(f"bench-{name}.yaml")
    write_plan(loaded, plan, system=system)
    source = read_source(plan)
    if config is not None:
        with open_store(store) as opened:
            change = with_system_of_run if system is None else with_values_of_run
            source = change(source, opened.find(config))
    with open_plan(read_plan(source), store=store, tags=(f"bench:{name}",)) as (planned, opened, _):
        request = with_benchmark_documents(planned, loaded)
        outcome = start_run(request, opened)
    if outcome.results is None:
        raise AueporaError(outcome.message or "the run was not scored")
    scored = with_numbers(replace(loaded, missing=[]), outcome.results, {})
    return replace(scored, documents=request.config[DOCUMENTS])


def _run_dict(scored: Scored, *, strict: bool) -> dict[str, Any]:
    loaded, heading = scored.loaded, scored.loaded.benchmark.heading
    numbers: dict[str, Any] = {}
    for number in scored.numbers:
        differs = loaded.part.metrics[number.name].differs
        numbers[number.name] = {"published": number.value, "samples": number.counted, "differs": differs}
        if not strict:
            numbers[number.name]["ours"] = number.ours
    return {
        "benchmark": heading.name,
        "split": loaded.split,
        "mark": heading.mark,
        "settings": dict(loaded.settings),
        "samples": len(loaded.samples),
        "missing": loaded.missing,
        "numbers": numbers,
        "not_computed": dict(scored.left_out),
        "documents": scored.documents,
        "non_commercial": heading.non_commercial,
        "results": scored.results.to_dict(),
    }


@click.command(name="check", cls=Command)
@click.argument("name", required=False)
def check_command(name: str | None) -> None:
    """Score the bundled example of NAME, or of every benchmark, and compare it with its published values.

    NAME may also be a YAML file of your own, or any other file: then it says to which benchmark the file belongs. The
    exit code is 1 if a value is not the published one.

    \b
    auepora bench check
    auepora bench check hotpotqa
    auepora bench check downloads/dev.json
    """
    from ..bench.pages import check_blocks
    from ..bench.scoring import check_example

    if name is not None and name not in entry_names() and not name.endswith((".yaml", ".yml")) and Path(name).exists():
        echo(describe_file(Path(name)))
        return
    chosen = all_benchmarks() if name is None else [get_benchmark(name)]
    rows = []
    for benchmark in chosen:
        for split, part in benchmark.parts.items():
            rows += [(benchmark, check_example(benchmark, split, example)) for example in part.examples]
    echo(blocks_text(check_blocks(rows)))
    if any(row.differences and not row.problem for _, row in rows):
        sys.exit(1)
