"""Parts of reading traces: spans of any shape, their attributes, questions and answers."""
