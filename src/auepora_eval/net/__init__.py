"""Network access shared by judges, models and systems: URL checks and retries."""
