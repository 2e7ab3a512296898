"""The SVG renderer of specs."""
