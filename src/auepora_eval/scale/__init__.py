"""The same evaluation beyond one process and one machine: input in shards, and who scores them."""
