"""Charts as Vega-Lite specs made from plain data, and our own drawing of them.

chart          Chart: a spec that renders itself
intervals      values with their intervals; one metric by slice
forest         differences with their intervals and verdicts; split into retrieval and generation
distributions  histograms of scores and latencies
curves         metrics over k, over noise, over the rank of the first hit
queries        two runs query by query; wins and losses
causes         why answers were wrong
panels, spec, theme, ticks, labels   parts of specs
svg            the SVG renderer
"""

from .chart import Chart
from .curves import curve_over_k, distribution_chart, latency_chart, noise_curve, quality_by_rank
from .intervals import forest_chart, interval_chart, slices_chart, split_chart
from .queries import causes_chart, scatter_chart, wins_losses_chart

__all__ = [
    "Chart",
    "causes_chart",
    "curve_over_k",
    "distribution_chart",
    "forest_chart",
    "interval_chart",
    "latency_chart",
    "noise_curve",
    "quality_by_rank",
    "scatter_chart",
    "slices_chart",
    "split_chart",
    "wins_losses_chart",
]
