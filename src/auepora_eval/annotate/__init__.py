"""Labels, grades and calibration at earlier paths."""
