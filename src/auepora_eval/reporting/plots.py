"""Charts at their documented path (re-exports ``report.plots`` and ``report.stored_plots``)."""

from ..report.plots import (
    plot_causes,
    plot_changes,
    plot_comparison,
    plot_curve_over_k,
    plot_distribution,
    plot_latency,
    plot_noise_curve,
    plot_quality_by_rank,
    plot_results,
    plot_scatter,
    plot_slices,
    plot_split,
    plot_wins_losses,
)
from ..report.stored_plots import plot_runs

__all__ = [
    "plot_causes",
    "plot_changes",
    "plot_comparison",
    "plot_curve_over_k",
    "plot_distribution",
    "plot_latency",
    "plot_noise_curve",
    "plot_quality_by_rank",
    "plot_results",
    "plot_runs",
    "plot_scatter",
    "plot_slices",
    "plot_split",
    "plot_wins_losses",
]
