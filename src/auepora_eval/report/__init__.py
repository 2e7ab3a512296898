"""Reports on stored runs: pages, charts, explanations and metric cards."""
