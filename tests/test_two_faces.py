"""A kernel and the transformer of its features have the same parameters, with the same defaults."""

import pytest

from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler, HomogeneousMap
from histogp.kernels import Chi2, ExpChi2

# What a process has beside the map, and what a transformer lets users choose that a kernel does not.
OF_KERNELS = {"weights", "groups", "points", "frequencies"}
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
