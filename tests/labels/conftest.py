"""A stored run to label, lines of an annotator, and short bootstraps."""

from helpers.labelling import few_draws, label_store, labelled_run, type_lines

__all__ = ["few_draws", "label_store", "labelled_run", "type_lines"]
