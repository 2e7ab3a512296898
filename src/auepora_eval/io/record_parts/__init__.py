"""Parts of records: what a column holds, lists in cells, writing."""
