"""Plan files: an evaluation written down, checked in full before anything is called."""
