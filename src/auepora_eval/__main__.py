"""``python -m auepora_eval``: the ``auepora`` command where its script is not on the path."""

from .cli.main import main

if __name__ == "__main__":
    main()
