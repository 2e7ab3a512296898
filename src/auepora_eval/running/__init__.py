"""A plan carried out: the system asked, its outputs stored, scored, resumed, scored again."""
