"""A paper's retrieval table at its documented path (re-exports ``engine.paper_tables``)."""

from ..engine.paper_tables import PaperTable, dual_evaluate, evaluate_queries, paper_evaluate

__all__ = ["PaperTable", "dual_evaluate", "evaluate_queries", "paper_evaluate"]
