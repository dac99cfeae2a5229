"""Problems that the tests of subset attention share."""

import itertools

import pytest

SIZES = list(itertools.product((1, 3, 16, 17), (0, 1, 5, 33, 64)))
"""Numbers of queries and of frozen keys."""


def make_problem(torch, k, U, group=2, kind=None, d=5, B=2, shared=2):
    """Inputs of a call and a gradient of its output; positions in any order."""
    draws = torch.Generator().manual_seed(k + 100 * U + 10_000 * group + 100_000 * d)
    normal = lambda *shape: torch.randn(shape, generator=draws, dtype=torch.float64).to(kind or torch.float64)
    order = (
        torch.stack([torch.randperm(k + U, generator=draws) for _ in range(B)])
        if B
        else torch.zeros(0, k + U)
    )
    order = order.to(torch.int32)
    q, grad = normal(B, shared * group, k, d), normal(B, shared * group, k, d)
    fresh, frozen = [normal(B, shared, k, d) for _ in "kv"], [normal(B, shared, U, d) for _ in "kv"]
    leaves = [x.requires_grad_() for x in (q, *fresh)]
    return (*leaves, *frozen), {"index_query": order[:, :k], "index_frozen": order[:, k:]}, grad


def run_all(torch, call, tensors, grad, **options):
    """Output and the three gradients."""
    out = call(*tensors, **options)
    return [out.detach(), *torch.autograd.grad(out, tensors[:3], grad)]


def worst(found, exact):
    """Largest error relative to the largest entry, over outputs and gradients.

    Where probabilities are 1 a gradient cancels to 0 and keeps the rounding of its terms: so no gradient
    counts as smaller than a tenth of the largest number of all.
    """
    least = max([0.1 * float(b.abs().max()) for b in exact if b.numel()], default=1.0)
    errors = [0.0]
    for a, b in zip(found, exact, strict=True):
        assert a.shape == b.shape
        if b.numel():
            errors.append(float((a.double() - b.double()).abs().max()) / max(float(b.abs().max()), least))
    return max(errors)


@pytest.fixture
def torch(needs):
    return needs("torch")


@pytest.fixture
def problem(torch):
    return lambda *args, **options: make_problem(torch, *args, **options)


@pytest.fixture
def everything(torch):
    return lambda *args, **options: run_all(torch, *args, **options)


@pytest.fixture
def error():
    return worst


def pytest_generate_tests(metafunc):
    if {"k", "U"} <= set(metafunc.fixturenames):
        metafunc.parametrize(("k", "U"), SIZES)
