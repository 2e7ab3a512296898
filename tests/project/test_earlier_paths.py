"""The documented names of earlier versions are at their paths still."""

import importlib

import pytest

EARLIER = {
    "agreement": ("read_annotations",),
    "bias": ("measure_bias",),
    "calibration": ("calibrate", "predict_labels", "read_score_file"),
    "corrections": ("make_correction", "preview_corrections"),
    "draws": ("draw_comparison", "draw_samples", "read_draws", "record_draw"),
    "relevance": ("read_partial_grades", "rescore_with_grades"),
}


@pytest.mark.parametrize("module", EARLIER)
def test_names_at_earlier_paths(module: str) -> None:
    found = importlib.import_module(f"auepora_eval.annotate.{module}")
    assert tuple(found.__all__) == EARLIER[module]
    assert all(getattr(found, name) for name in EARLIER[module])
