"""Parts of reading TREC files: two readers, columnar parsing, rankings, gold matching."""
