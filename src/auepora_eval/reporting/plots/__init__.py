"""Charts of results, comparisons and stored runs.

of_results      plot_results, plot_distribution, plot_latency, plot_slices, plot_curve_over_k, plot_causes, ...
of_comparisons  plot_comparison, plot_scatter, plot_wins_losses, plot_split, plot_changes, plot_noise_curve
of_runs         the kinds of ``auepora plot``, from a store
"""

from .comparisons import (
    plot_changes,
    plot_comparison,
    plot_noise_curve,
    plot_scatter,
    plot_split,
    plot_wins_losses,
)
from .results import (
    plot_causes,
    plot_curve_over_k,
    plot_distribution,
    plot_latency,
    plot_quality_by_rank,
    plot_results,
    plot_slices,
)
from .stored_runs import plot_runs

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
