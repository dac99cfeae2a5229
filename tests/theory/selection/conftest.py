import numpy as np
import pytest


@pytest.fixture
def net(needs):
    """A tanh net with two tensors of parameters, in the precision asked for."""
    torch = needs("torch")

    def make(n=7, seed=0, dtype="float64"):
        rng, kind = np.random.default_rng(seed), getattr(torch, dtype)

        def draw(*shape):
            return torch.as_tensor(rng.normal(size=shape), dtype=kind)

        params = {"W": draw(3, 2), "w": draw(3)}
        held = draw(5, 2), draw(5)

        def loss(p, batch):
            return 0.5 * (torch.tanh(batch["x"] @ p["W"].T) @ p["w"] - batch["y"][0]) ** 2

        def val_loss(p):
            return loss(p, {"x": held[0], "y": [held[1]]}).mean()

        return loss, val_loss, params, {"x": draw(n, 2), "y": [draw(n)]}

    return make
