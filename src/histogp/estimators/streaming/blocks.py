"""Parameters of estimators that learn from several blocks of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp.estimators.blocks import BlockMap, checked_blocks
from histogp.estimators.streaming.base import Streaming
from histogp.storage import Array

BLOCKS = """blocks : list of (name, map, columns) or None, default=None
        In place of ``feature_map``: several maps, each of some columns, as in `histogp.feature_maps.BlockMap`."""


class WithBlocks(Streaming):
    """For estimators with the parameters ``blocks`` and, perhaps, ``block_components``."""

    blocks: Any
    block_components: int | None = None

    def _given_map(self) -> Any:
        if self.blocks is None:
            if self.block_components is not None:
                raise ValueError("block_components are those of blocks, and there are none.")
            return self.feature_map
        if self.feature_map is not None:
            raise ValueError("Give either a feature_map or blocks.")
        return BlockMap(self._numbered(), pca_components=self.block_components, chunk_bytes=self.chunk_bytes)

    def _numbered(self) -> list[tuple[str, Any, Any]]:
        """Blocks with numbers in place of the names of columns."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return checked_blocks(self.blocks)
        position = {name: k for k, name in enumerate(names)}
        found = []
        for name, map_, columns in checked_blocks(self.blocks):
            is_slice = isinstance(columns, slice)
            given = (columns.start, columns.stop) if is_slice else np.atleast_1d(np.asarray(columns, object))
            texts = [one for one in given if isinstance(one, str)]
            missing = [one for one in texts if one not in position]
            if missing:
                raise ValueError(f"The block {name!r} wants a column {missing[0]!r}, which the data do not have.")
            if is_slice and texts:  # with its end, as in a ColumnTransformer
                begin, end = (position.get(bound, bound) for bound in given)
                columns = slice(begin, end + 1 if isinstance(given[1], str) else end, columns.step)
            elif len(texts) == len(given) > 0:
                columns = [position[one] for one in texts]
            found.append((name, map_, columns))
        return found

    def _block_of(self) -> Array | None:
        """The number of the block of each feature, (m,); None without blocks."""
        feature_map = self._learned.feature_map
        return feature_map.block_of_ if isinstance(feature_map, BlockMap) else None
