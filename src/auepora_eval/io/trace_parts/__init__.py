"""Parts of reading traces: spans in any JSON layout, their attributes, queries and answers."""
