"""What a system is given, made worse on purpose, and always in the same way: the same seed gives the same."""
