"""Readers and recipes of the data sets."""

import gzip
import struct

import numpy as np
import pytest

from histogp.datasets import (
    images,
    load_fashion_mnist,
    load_idx_folder,
    make_bags_of_words,
    make_checkerboard,
    orientation_histograms,
    read_idx,
)


def write_idx(path, array, code=0x08):
    content = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_idx_files_are_read_plain_and_gzipped(tmp_path):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    np.testing.assert_array_equal(read_idx(write_idx(tmp_path / "a", images)), images)
    np.testing.assert_array_equal(read_idx(write_idx(tmp_path / "a.gz", images)), images)
    floats = np.array([1.5, -2.0], ">f4")
    np.testing.assert_array_equal(read_idx(write_idx(tmp_path / "f", floats, 0x0D)), floats)


def test_broken_idx_files_are_named(tmp_path):
    path = write_idx(tmp_path / "a", np.zeros((2, 3), np.uint8))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"not a complete IDX file.*\[2, 3\]"):
        read_idx(path)
    path.write_bytes(b"P5 28 28")
    with pytest.raises(ValueError, match="not an IDX file"):
        read_idx(path)
    packed = write_idx(tmp_path / "a.gz", np.zeros((200, 30), np.uint8))
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ValueError, match="not a complete gzip file"):
        read_idx(packed)


def test_a_folder_of_idx_files_is_loaded(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="neither train-images-idx3-ubyte nor"):
        load_idx_folder(tmp_path)
    for part, n in (("train", 3), ("t10k", 2)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", np.full((n, 4, 4), n, np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", np.arange(n, dtype=np.uint8))
    X_train, y_train, X_test, y_test = load_idx_folder(tmp_path)
    assert (X_train.shape, X_test.shape) == ((3, 4, 4), (2, 4, 4))
    assert (y_train.tolist(), y_test.tolist()) == ([0, 1, 2], [0, 1])
    monkeypatch.setattr(images, "FASHION_MNIST_FOLDERS", (tmp_path / "nowhere", tmp_path))
    assert len(load_fashion_mnist()[0]) == 3
    monkeypatch.setattr(images, "FASHION_MNIST_FOLDERS", (tmp_path / "nowhere",))
    with pytest.raises(FileNotFoundError, match="apt-get install dataset-fashion-mnist"):
        load_fashion_mnist()


def test_orientation_histograms_are_normalized_and_see_the_orientation():
    ramp = np.tile(np.arange(28.0) ** 2 / 3, (28, 1))
    features = orientation_histograms(np.stack([ramp, ramp.T, np.zeros((28, 28))]))
    assert features.shape == (3, 441)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features.sum(axis=1), [1, 1, 0], rtol=1e-5)
    by_orientation = features.reshape(3, 7, 7, 9)[:, 1:-1, 1:-1].sum(axis=(1, 2))
    assert by_orientation[0].argmax() == 0
    assert by_orientation[1].argmax() in (4, 5)


def test_cells_of_an_orientation_histogram_are_their_pixels_and_half_their_neighbors():
    image = np.zeros((1, 12, 12))
    image[0, 5, 4] = 255  # its gradients lie on the four pixels around it
    totals = orientation_histograms(image).reshape(3, 3, 9).sum(axis=2)
    votes = np.zeros((12, 12))
    votes[[5, 5, 4, 6], [3, 5, 4, 4]] = 1
    weights = np.zeros((3, 12))
    for cell in range(3):
        weights[cell, 4 * cell : 4 * cell + 4] = 1
        weights[cell, [k for k in (4 * cell - 1, 4 * cell + 4) if 0 <= k < 12]] = 0.5
    expected = weights @ votes @ weights.T
    np.testing.assert_allclose(totals, expected / expected.sum(), atol=1e-6)


def test_an_image_size_that_does_not_fit_the_cells_is_refused():
    with pytest.raises(ValueError, match="not a multiple of the cell size 4"):
        orientation_histograms(np.zeros((1, 30, 28)))


def test_bags_of_words_are_normalized_sparse_and_reproducible():
    X, y = make_bags_of_words(500, random_state=3)
    assert X.shape == (500, 1000)
    assert 0.10 < X.nnz / 500_000 < 0.13
    np.testing.assert_allclose(X.sum(axis=1), 1)
    again, y_again = make_bags_of_words(500, random_state=3)
    assert (again != X).nnz == 0
    np.testing.assert_array_equal(y, y_again)
    assert set(make_bags_of_words(300, n_classes=5, random_state=0)[1]) == set(range(5))


def test_a_checkerboard_alternates_and_its_rows_sum_to_one():
    X, y = make_checkerboard(50, 3, random_state=0)
    assert X.shape == (450, 3)
    assert X.min() >= 0
    np.testing.assert_allclose(X.sum(axis=1), 1)
    fields = (X[:, :2] * 6).astype(int)
    np.testing.assert_array_equal(fields.sum(axis=1) % 2, y)
    np.testing.assert_array_equal(np.unique(fields, axis=0, return_counts=True)[1], 50)
