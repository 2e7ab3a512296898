"""Judging by a language model: critics, what they are asked, and the session that asks them with care."""
