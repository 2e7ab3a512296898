"""Partial grades at an earlier path (re-exports ``grades.partial_grades``)."""

from ..grades.partial_grades import read_partial_grades, rescore_with_grades

__all__ = ["read_partial_grades", "rescore_with_grades"]
