"""From a model file to an estimator, and what a file says about itself."""

from __future__ import annotations

from typing import Any

from histogp.exceptions import ModelFileError
from histogp.gp._model_file import restore
from histogp.gp.classifier import HistogramGPClassifier
from histogp.gp.one_class import HistogramGPOneClass
from histogp.gp.regressor import HistogramGPRegressor
from histogp.io import container
from histogp.streaming import _model_file
from histogp.streaming.pca import StreamingPCA
from histogp.streaming.ridge_models import StreamingRidge, StreamingRidgeClassifier
from histogp.streaming.sparse_models import StreamingElasticNet, StreamingGroupLasso

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
            return _model_file.restore(document, arrays, STREAMING)
        return restore(document, arrays, CLASSES)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r} is not an intact histogp model: {error}") from None


def describe(path: Any) -> dict[str, Any]:
    """What a model file says about itself, without making the estimator.

    Its contents are compared with its checksum, and not looked at further; `load` does that.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    facts : dict
        - "class": the name of the estimator's class
        - "format", "version": of the file, and of the histogp that wrote it
        - "includes_training": whether the training samples are in it
        - "notes": texts that were given to `save`
        - "sha256": the checksum

    Raises
    ------
    ModelFileError
        If the file is no intact model. It is a ValueError.

    Examples
    --------
    >>> import histogp, os, tempfile
    >>> clf = histogp.HistogramGPClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.histogp")
    ...     clf.save(path)
    ...     histogp.describe(path)["class"]
    'HistogramGPClassifier'
    """
    document, _ = container.read(path)
    notes = document.get("progress", [])
    if not isinstance(notes, list) or not {"class", "format", "version"} <= document.keys():
        raise ModelFileError(f"{str(path)!r} is not an intact histogp model: its description is damaged.")
    return {
        **{name: document[name] for name in ("class", "format", "version")},
        "includes_training": document.get("includes_training") is True,
        "notes": notes,
        "sha256": document["sha256"],
    }
