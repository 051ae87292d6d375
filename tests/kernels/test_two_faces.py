"""A kernel and the transformer of its features have the same parameters, with the same defaults."""

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms

from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler, HomogeneousMap
from histogp.kernels import Chi2, ExpChi2

# What a process has beside the map, and what a transformer lets users choose that a kernel does not.
OF_KERNELS = {"weights", "groups", "scale", "columns", "approximation"}
OF_TRANSFORMERS = {"method", "points", "sample_interval", "additive", "n_jobs"}


@pytest.mark.parametrize(("kernel", "transformer"), [(Chi2, AdditiveChi2Map), (ExpChi2, ExpChi2Sampler)])
def test_names_and_defaults_are_the_same(kernel, transformer):
    of_kernel, of_transformer = kernel().get_params(), transformer().get_params()
    shared = of_kernel.keys() - OF_KERNELS
    assert shared
    assert shared == of_transformer.keys() - OF_TRANSFORMERS
    assert {name: of_kernel[name] for name in shared} == {name: of_transformer[name] for name in shared}


def test_additive_maps_have_as_many_terms_by_default():
    assert HomogeneousMap().n_terms == AdditiveChi2Map().n_terms


@pytest.mark.parametrize("n_terms", [1, 4, "auto"])
def test_products_of_the_transformer_are_the_kernel_of_an_estimator(n_terms):
    X = histograms(30, 5)
    Z = AdditiveChi2Map(n_terms=n_terms).fit_transform(X)
    close(kernel_operator(X, Chi2(n_terms)).matrix(), Z @ Z.T)


@pytest.mark.parametrize("sampling", ["orthogonal", "plain", "quasi"])
def test_random_features_have_the_same_width_and_terms(sampling):
    X = histograms(30, 5)
    sampler = ExpChi2Sampler(12, n_terms=2, sampling=sampling).fit(X)
    kernel = ExpChi2(12, n_terms=2, sampling=sampling, approximation="fourier")
    operator = kernel_operator(X, kernel)
    assert sampler.beta_ == kernel._adapt(X).kernel.beta
    np.testing.assert_array_equal(sampler.additive_.points_, operator.kernel.map.waves.additive.points)
    assert sampler.transform(X).shape[1] == operator.n_components
