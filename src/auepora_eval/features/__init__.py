"""Features: columns over a whole batch, computed once and read by every metric that needs them.

hits    where each query's gold documents stand in its ranking
"""
