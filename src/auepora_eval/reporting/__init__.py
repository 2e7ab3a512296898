"""Tables and plots at their documented paths; the code is in ``render`` and ``report``."""
