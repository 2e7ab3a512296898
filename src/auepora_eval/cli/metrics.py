"""``auepora metrics``: the metrics, listed and explained."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command(name="metrics")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List the metrics, or explain the one called NAME.

    \b
    auepora metrics
    auepora metrics ndcg
    auepora metrics recall@5 --json
    """
    import json

    from ..core.registry import metric_info
    from ..core.targets import TARGETS
    from ..reporting.metric_cards import metric_card, metric_cards
    from .output import table

    if name is not None:
        # The index of names prints as `mrr[@k]`; accept that spelling too.
        card = metric_card(metric_info(name))
        click.echo(json.dumps(_plain(card), indent=2, ensure_ascii=False) if as_json else card.to_text())
        return
    cards = metric_cards()
    if as_json:
        click.echo(json.dumps([_plain(card) for card in cards], indent=2, ensure_ascii=False))
        return
    order = list(TARGETS)
    cards.sort(key=lambda card: (order.index(card.target) if card.target in order else len(order), card.name))
    rows, last = [], None
    for card in cards:
        title = TARGETS[card.target].title if card.target is not None else ""
        rows.append(["" if title == last else title, card.pattern, card.range_text, card.summary])
        last = title
    click.echo(table(rows, headers=["target", "metric", "range", "what it says"]))
    click.echo("\n`auepora metrics NAME` explains one.", err=True)


def _plain(card: object) -> dict[str, object]:
    import dataclasses
    import math

    from ..reporting.metric_cards import MetricCard

    assert isinstance(card, MetricCard)
    fields = dataclasses.asdict(card)
    fields["target"] = None if card.target is None else card.target.name
    if card.range is not None:
        fields["range"] = [None if math.isinf(bound) else bound for bound in card.range]
    return fields
