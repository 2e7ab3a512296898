"""Parts of reading TREC files: two readers, columns of a block, rankings from lines."""
