"""Parts of the record formats: columns, lists in cells, writing."""
