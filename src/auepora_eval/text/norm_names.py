"""The names of the normalisations of ``text.norms``."""

from typing import Literal

TextNorm = Literal["squad", "nq", "trivia", "lower", "no_blanks", "none"]
"""``squad``: SQuAD's. ``nq``: decomposed accents first, as in NQ-open. ``trivia``: punctuation becomes a blank, as in
TriviaQA. ``lower``: lower case alone. ``no_blanks``: without blanks and line ends. ``none``: as written."""
