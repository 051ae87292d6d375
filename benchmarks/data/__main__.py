"""``python -m benchmarks.data NAME ...`` fetches data sets into the cache."""

import sys

from benchmarks.data import LOADERS

for name in sys.argv[1:]:
    if name not in LOADERS:
        sys.exit(f"There is no data set {name!r}; there are {', '.join(LOADERS)}.")
    LOADERS[name]()
