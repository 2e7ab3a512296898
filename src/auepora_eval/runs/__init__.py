"""Running plans: call the system, store its outputs, score them, resume, rescore."""
