"""``python -m histogp`` is the command ``histogp``."""

import sys

from histogp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
