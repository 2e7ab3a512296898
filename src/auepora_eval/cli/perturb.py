"""``auepora perturb``: write a dataset with perturbed variants of its questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..perturb.edits import LAYOUTS
from ..perturb.queries import VariantCounts, Variants, perturb_queries
from ..render.html import pluralize
from .console import echo_err, json_text, quiet_option
from .help_pages import Command
from .options import refuse_input_as_output

RATE = click.FloatRange(0, 1)


def _read_cases(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, float | None]:
    """The cases, each once, with the proportion of letters if one is given."""
    cases: dict[str, float | None] = {}
    for value in values:
        kind, equals, rate = value.partition("=")
        if kind not in ("lower", "upper", "random") or (equals and kind != "random"):
            raise click.BadParameter(f"{value!r} is none of lower, upper, random, random=RATE")
        cases[kind] = RATE(rate, parameter, context) if equals else None
    return cases


@click.command(name="perturb", cls=Command)
@click.argument("dataset", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="JSONL file to write.")
@click.option("--typo", type=RATE, metavar="RATE", help="Swap, drop or double this proportion of letters.")
@click.option(
    "--keyboard", type=RATE, metavar="RATE", help="Replace this proportion of letters by a neighbour on the keyboard."
)
@click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    default="qwerty",
    show_default=True,
    help="Keyboard layout for --keyboard.",
)
@click.option("--drop-words", type=RATE, metavar="RATE", help="Drop this proportion of words.")
@click.option("--swap-words", type=RATE, metavar="RATE", help="Swap this proportion of adjacent words.")
@click.option(
    "--case",
    "cases",
    multiple=True,
    callback=_read_cases,
    metavar="lower|upper|random[=RATE]",
    help="Change the case of all letters, or of a random proportion (0.5); repeatable.",
)
@click.option("--no-punctuation", is_flag=True, help="Remove punctuation, except within words and numbers.")
@click.option(
    "--with",
    "own",
    multiple=True,
    metavar="MODULE:NAME",
    help="Import path of your own perturber, such as a paraphraser; repeatable.",
)
@click.option("--keep-numbers", is_flag=True, help="Do not change words that contain a digit.")
@click.option(
    "--variants", type=click.IntRange(1), default=1, show_default=True, help="Variants of each kind per question."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the perturbations.")
@click.option("--only-variants", is_flag=True, help="Write only the variants, not the original samples.")
@click.option("--variants-too", is_flag=True, help="Also perturb samples that are variants already.")
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Concurrent calls of your own perturber.",
)
@click.option("--from", "from_format", metavar="NAME", help="Format of DATASET; default: detected.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def command(
    dataset: str,
    output: str,
    variants: int,
    seed: int,
    only_variants: bool,
    variants_too: bool,
    concurrency: int,
    from_format: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Write DATASET with perturbed variants of its questions, to measure the robustness of a system.

    Each kind of perturbation makes its own variants. A variant keeps gold and references, names its question in
    labels.variant_of and has the id QUESTION~KIND-NUMBER. Score originals and variants with `noise_robustness`.

    \b
    auepora perturb data.jsonl --typo 0.05 --drop-words 0.1 -o noisy.jsonl
    auepora perturb data.jsonl --keyboard 0.05 --layout azerty --variants 3 --seed 7 -o noisy.jsonl
    auepora perturb data.jsonl --with my_llm:paraphraser --concurrency 8 -o noisy.jsonl
    """
    from ..errors import BadValueError, DataFileError
    from ..io.join import load_dataset
    from ..io.jsonl import save_jsonl_dataset
    from ..render.terminal import progress

    refuse_input_as_output(output, [dataset])
    _require_jsonl(output)
    perturbers = _perturbers(**choices)
    if not perturbers:
        raise click.UsageError("give at least one perturbation, such as --typo 0.05 or --drop-words 0.1")
    with progress(f"perturbing {dataset}"):
        made = perturb_queries(
            load_dataset(dataset, from_format),
            perturbers,
            seed=seed,
            variants=variants,
            only_variants=only_variants,
            variants_too=variants_too,
            concurrency=concurrency,
        )
        if not made.bases:
            why = "only variants; --variants-too makes variants of them" if made.variants_left else "no sample has one"
            raise DataFileError(dataset, None, f"there is no question in it that could be perturbed: {why}")
        if not any(counts.made for counts in made.counts.values()):
            reasons = "; ".join(f"{name}: {_left_out(counts)}" for name, counts in made.counts.items())
            raise BadValueError(f"no variant could be made of the questions in {dataset} ({reasons})")
        save_jsonl_dataset(made, output)
    if as_json:
        document = {
            "schema": 1,
            "written": output,
            "samples": len(made),
            "variants": sum(counts.made for counts in made.counts.values()),
            "perturbed": made.bases,
            "variants_left": made.variants_left,
            "without_query": made.without_query,
            "kinds": {name: asdict(counts) for name, counts in made.counts.items()},
        }
        click.echo(json_text(document))
        return
    echo_err(*_messages(made, output))


def _require_jsonl(output: str) -> None:
    from ..runtime.files import plain_suffix

    if plain_suffix(Path(output)) not in (".jsonl", ".ndjson"):
        raise click.UsageError(
            f"-o {output}: the output is JSONL, so the name must end in .jsonl (`auepora convert` converts)"
        )


def _perturbers(
    *,
    typo: float | None,
    keyboard: float | None,
    layout: str,
    drop_words: float | None,
    swap_words: float | None,
    cases: Mapping[str, float | None],
    no_punctuation: bool,
    own: tuple[str, ...],
    keep_numbers: bool,
) -> list[Any]:
    from ..perturb import edits as edits

    given = click.get_current_context().get_parameter_source
    if keyboard is None and given("layout") is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError("--layout goes with --keyboard")
    if keep_numbers and typo is keyboard is drop_words is None:
        raise click.UsageError("--keep-numbers goes with --typo, --keyboard or --drop-words")
    made: list[Any] = []
    if typo is not None:
        made.append(edits.Typo(typo, keep_numbers))
    if keyboard is not None:
        made.append(edits.Keyboard(keyboard, keep_numbers, layout))
    if drop_words is not None:
        made.append(edits.DropWords(drop_words, keep_numbers))
    if swap_words is not None:
        made.append(edits.SwapWords(swap_words))
    for kind, rate in cases.items():
        plain = {"lower": edits.LowerCase, "upper": edits.UpperCase}
        made.append(plain[kind]() if kind in plain else edits.RandomCase(0.5 if rate is None else rate))
    if no_punctuation:
        made.append(edits.NoPunctuation())
    if own:
        from ..systems.interfaces import load_object

        made += [load_object(path, folder=Path.cwd()) for path in own]
    return made


def _messages(made: Variants, output: str) -> list[str]:
    """Messages about what was written and what was left out."""
    total = sum(counts.made for counts in made.counts.values())
    messages = [f"wrote {output}: {pluralize(len(made), 'sample')}, {total} of them variants"]
    for name, counts in made.counts.items():
        rest = _left_out(counts)
        messages.append(f"{name}: {pluralize(counts.made, 'variant')}" + (f"; left out: {rest}" if rest else ""))
    if made.variants_left:
        messages.append(f"not perturbed: {pluralize(made.variants_left, 'variant')} that the dataset had already")
    if made.without_query:
        messages.append(f"not perturbed: {pluralize(made.without_query, 'sample')} without a query")
    return messages


def _left_out(counts: VariantCounts) -> str:
    reasons = {
        "no different from the question": counts.unchanged,
        "the same as another variant of it": counts.repeated,
        f"failed ({counts.failure})": counts.failed,
    }
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
