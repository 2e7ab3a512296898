"""Systems that are not Python objects in this process: import paths, HTTP endpoints, commands."""
