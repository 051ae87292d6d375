"""From a model file to an estimator."""

from __future__ import annotations

from typing import Any

from histogp import container
from histogp.estimators.classifier import HistogramGPClassifier
from histogp.estimators.model_file import restore
from histogp.estimators.one_class import HistogramGPOneClass
from histogp.estimators.regressor import HistogramGPRegressor
from histogp.estimators.streaming import model_file as streaming_file
from histogp.estimators.streaming.pca import StreamingPCA
from histogp.estimators.streaming.penalised import StreamingElasticNet, StreamingGroupLasso
from histogp.estimators.streaming.ridge import StreamingRidge
from histogp.estimators.streaming.ridge_classifier import StreamingRidgeClassifier
from histogp.exceptions import ModelFileError

CLASSES = {cls.__name__: cls for cls in (HistogramGPClassifier, HistogramGPRegressor, HistogramGPOneClass)}
STREAMING = {
    cls.__name__: cls
    for cls in (StreamingElasticNet, StreamingGroupLasso, StreamingPCA, StreamingRidge, StreamingRidgeClassifier)
}


def load(path: Any) -> Any:
    """The estimator in a file that `save` wrote; it predicts exactly as the one that was saved.

    A model file holds no code. Its checksum finds damage, but it is not a signature: it does not tell
    who wrote the file.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator : HistogramGPClassifier, HistogramGPRegressor, HistogramGPOneClass or one of `histogp.streaming`

    Raises
    ------
    ModelFileError
        If the file is no intact model. It is a ValueError.

    Examples
    --------
    >>> import histogp, numpy as np, os, tempfile
    >>> clf = histogp.HistogramGPClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.histogp")
    ...     clf.save(path)
    ...     histogp.load(path).predict([[0.2, 0.8]])
    array(['a'], dtype='<U1')
    """
    document, arrays = container.read(path)
    try:
        if document.get("class") in list(STREAMING):
            return streaming_file.restore(document, arrays, STREAMING)
        return restore(document, arrays, CLASSES)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r} is not an intact histogp model: {error}") from None
