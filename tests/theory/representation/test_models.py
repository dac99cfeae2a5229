"""Layers out of models of torch and scikit-learn: same outputs, and refusals that say why."""

import warnings

import numpy as np
import pytest

from porism.errors import AssumptionError
from porism.theory.representation import Layer, canonicalise, duplicate, layer_of, privileged_similarity

pytestmark = pytest.mark.full

X = np.random.default_rng(0).normal(size=(40, 5))


@pytest.fixture
def torch(needs):
    found = needs("torch")
    generator = found.random.get_rng_state()
    found.manual_seed(0)
    yield found
    found.random.set_rng_state(generator)


def outputs(torch, model):
    with torch.no_grad():
        return model.double()(torch.from_numpy(X)).numpy()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("ReLU", {}, "relu"),
        ("LeakyReLU", {"negative_slope": 0.3}, "leaky_relu"),
        ("GELU", {}, "gelu"),
        ("GELU", {"approximate": "tanh"}, "gelu_tanh"),
        ("SiLU", {}, "silu"),
        ("Tanh", {}, "tanh"),
    ],
)
def test_activations_of_torch(torch, name, options, expected):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(5, 7), getattr(nn, name)(**options), nn.Dropout(0.0), nn.Linear(7, 2)
    ).double()
    layer = layer_of(model)
    assert layer.activation == expected
    np.testing.assert_allclose(layer(X), outputs(torch, model), atol=1e-13)


def test_nested_and_deeper(torch):
    nn = torch.nn
    first = nn.Sequential(nn.Linear(5, 7, bias=False), nn.ReLU())
    model = nn.Sequential(
        nn.Flatten(), first, nn.Sequential(nn.Linear(7, 6), nn.ReLU()), nn.Linear(6, 2)
    ).double()
    one, two = layer_of(model), layer_of(model, hidden=1)
    assert (one.units, two.units) == (7, 6)
    np.testing.assert_array_equal(one.b, 0)
    np.testing.assert_allclose(two(np.maximum(X @ one.W_in.T, 0)), outputs(torch, model), atol=1e-13)
    assert layer_of(model.float()).precision == np.finfo(np.float32).eps
    with pytest.raises(ValueError, match="hidden must be below the number of hidden layers, 2, got 2"):
        layer_of(model, hidden=2)


def test_same_function_in_torch(torch):
    """A model against itself with units scaled in float32, through the functions of the module."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
    other = nn.Sequential(nn.Linear(5, 14), nn.ReLU(), nn.Linear(14, 2))
    factors = torch.exp(torch.randn(14))
    with torch.no_grad():
        other[0].weight.copy_(model[0].weight.repeat(2, 1) * factors[:, None])
        other[0].bias.copy_(model[0].bias.repeat(2) * factors)
        other[2].weight.copy_(model[2].weight.repeat(1, 2) / factors / 2)
        other[2].bias.copy_(model[2].bias)
    assert canonicalise(other).lines == 7
    assert canonicalise(duplicate(model, [3] * 7)).lines == 7  # symmetries take models too
    assert privileged_similarity(model, other, X) == pytest.approx(1, abs=1e-9)


def test_refusals(torch):
    nn = torch.nn
    line, end = nn.Linear(5, 5), nn.Linear(5, 2)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = line, end

    refused = [
        (nn.Sequential(line, nn.LayerNorm(5), nn.ReLU(), end), "LayerNorm: normalisation ties every unit"),
        (nn.Sequential(line, nn.BatchNorm1d(5), nn.ReLU(), end), "BatchNorm1d: normalisation"),
        (nn.MultiheadAttention(4, 2), "MultiheadAttention: attention multiplies inputs"),
        (nn.TransformerEncoderLayer(4, 2, 8), "TransformerEncoderLayer: attention and normalisation"),
        (nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU(), end), "Conv1d: weights shared"),
        (nn.Sequential(line, nn.Softmax(1), end), "Softmax: softmax ties"),
        (nn.Sequential(line, nn.ELU(), end), "one known activation between two linear maps, got .'ELU'."),
        (nn.Sequential(line, end), "got none; known are ReLU"),
        (nn.Sequential(line, nn.ReLU(), nn.Tanh(), end), "got .'ReLU', 'Tanh'."),
        (Own(), "torch.nn.Sequential, whose order is known, got Own"),
        (nn.Sequential(line, nn.ReLU(), end).bfloat16(), "got bfloat16; call model.float"),
        (nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2, device="meta")), "on the meta device"),
    ]
    for model, message in refused:
        with pytest.raises(TypeError, match=message):
            layer_of(model)
    with pytest.raises(ValueError, match="number of hidden layers, 0"):
        layer_of(nn.Sequential(nn.Linear(5, 2)))
    gelu = nn.Sequential(nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 2))
    with pytest.raises(AssumptionError, match="got 'gelu'"):
        privileged_similarity(gelu, gelu, X)


def test_models_of_scikit_learn(needs):
    network = needs("sklearn.neural_network")
    y = X[:, :2] ** 2
    for name in ("relu", "tanh", "logistic"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = network.MLPRegressor(
                hidden_layer_sizes=(6, 4), activation=name, max_iter=5, random_state=0
            ).fit(X, y)
        if name == "logistic":
            with pytest.raises(TypeError, match="got 'logistic'"):
                layer_of(model)
            continue
        one, two = layer_of(model), layer_of(model, 1)
        np.testing.assert_allclose(two(one.hidden(X)), model.predict(X), atol=1e-12)
    with pytest.raises(ValueError, match="hidden layers, 2"):
        layer_of(model.set_params(activation="relu"), 2)


def test_a_layer_is_one_already():
    net = Layer([[1.0]], [0], [[1]], [0])
    assert layer_of(net) is net
    with pytest.raises(ValueError, match="hidden layers, 1"):
        layer_of(net, 1)
    with pytest.raises(TypeError, match="hidden must be an int"):
        layer_of(net, 1.0)
    with pytest.raises(TypeError, match="got list; build Layer"):
        layer_of([1, 2])
