"""What is refused, and in which words."""

import numpy as np
import pytest

from porism.errors import AssumptionError
from porism.theory.selection import column_mask, dual_scores, joint_select, per_sample_gradients, score_oracle


@pytest.fixture(autouse=True)
def torch(needs):
    return needs("torch")


def refused(net, kind, words, loss=None, val=None, params=None, batch=None, **options):
    own = net()
    given = [new or old for new, old in zip((loss, val, params, batch), own, strict=True)]
    with pytest.raises(kind, match=words):
        dual_scores(*given, **options)


def test_losses_of_the_wrong_shape(net):
    own = net()[0]
    refused(net, ValueError, "one loss a sample, got a scalar", lambda p, b: own(p, b).mean())
    refused(net, ValueError, r"shape \(2,\) for 2 samples", lambda p, b: own(p, b)[:, None])
    refused(net, TypeError, "must return a tensor", lambda p, b: 0.5)
    refused(net, ValueError, "val_loss must return one number", val=lambda p: p["w"])
    refused(net, ValueError, "val_loss must return one number", val=lambda p: 0.5)


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_loss_that_is_not_finite_is_named(net, chunk):
    own = net()[0]
    bad = float(net()[3]["y"][0][4])

    def loss(p, b):
        found = own(p, b)
        return found.where(b["y"][0] != bad, found.new_tensor(float("nan")))

    refused(net, ValueError, "got nan at sample 4;", loss, chunk=chunk)
    refused(net, ValueError, "val_loss must be finite", val=lambda p: p["w"].sum() / 0)


def test_samples_that_depend_on_each_other(net, torch):
    own = net()[0]

    def centred(p, b):
        return own(p, {"x": b["x"] - b["x"].mean(0), "y": b["y"]})

    refused(net, AssumptionError, "losses must not depend on the rest of the batch", centred)
    _, val, params, batch = net()
    assert dual_scores(centred, val, params, batch, check=0).rows.shape == (7,)
    norm = torch.nn.BatchNorm1d(2, dtype=torch.float64)
    refused(
        net,
        AssumptionError,
        "fails on sample 0 alone",
        lambda p, b: own(p, {"x": norm(b["x"]), "y": b["y"]}),
    )
    norm.eval()
    assert dual_scores(lambda p, b: own(p, {**b, "x": norm(b["x"])}), val, params, batch).rows.shape == (7,)


def test_random_losses(net, torch):
    loss, val, _, _ = net()
    drop = torch.nn.Dropout(0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # by chance, one time in 128, two masks of seven losses are the same
        refused(net, AssumptionError, "two answers for one batch", lambda p, b: drop(loss(p, b) + 1))
        refused(net, AssumptionError, "val_loss must be deterministic", val=lambda p: drop(val(p).reshape(1)))


def test_losses_of_another_model(net, torch):
    linear = torch.nn.Linear(2, 1).double()
    refused(net, ValueError, "loss_vector must depend on the parameters", lambda p, b: linear(b["x"])[:, 0])
    refused(
        net,
        ValueError,
        "val_loss must depend on the parameters",
        val=lambda p: linear.weight.sum(),
    )


def test_weights_and_masks(net, torch):
    refused(net, ValueError, r"weights must have shape \(7,\), got \(6,\)", weights=np.ones(6))
    refused(net, ValueError, "weights must be finite", weights=[np.nan] * 7)
    refused(net, ValueError, "mask must have the names of params, got a difference at 'W'", mask={"w": 1.0})
    refused(net, ValueError, r"mask\['w'\] must have shape \(3,\)", mask={"W": 1.0, "w": torch.ones(2)})
    refused(net, ValueError, "must be finite", mask={"W": float("nan"), "w": 1.0})
    refused(net, TypeError, "mask must map names", mask=torch.ones(9))
    for factor in (None, "all"):
        refused(net, TypeError, r"mask\['W'\] must hold real numbers", mask={"W": factor, "w": 1.0})


def test_options(net):
    for order in ("path", "endpoint"):
        refused(net, ValueError, f"lr must be given for order='{order}'", order=order)
    refused(net, ValueError, "order must be one of", order="second")
    refused(net, ValueError, "method must be one of", method="ghost")
    refused(net, ValueError, "norms must be one of", norms="fast")
    refused(net, ValueError, "lr must be finite and > 0", lr=0.0)
    refused(net, ValueError, "nodes must be in 1..64", nodes=0)
    refused(net, ValueError, "chunk must be >= 1", chunk=0)
    refused(net, ValueError, "check must be >= 0", check=-1)


def test_parameters_and_batches(net, torch):
    ids = torch.arange(3)
    refused(net, TypeError, "params must map names", params=[torch.ones(2)])
    refused(net, TypeError, r"params\['n'\] must be a tensor of floats, got torch.int64", params={"n": ids})
    refused(net, TypeError, "batch must hold tensors", batch="text")
    refused(net, ValueError, r"first axis .* lengths \[2, 3\]", batch=(torch.ones(2), torch.ones(3)))
    refused(net, ValueError, r"lengths \[0\]", batch=(torch.tensor(1.0),))
    with torch.inference_mode():
        refused(net, ValueError, r"got torch.inference_mode\(\)")
    with pytest.raises(ValueError, match="one tensor or more"):
        dual_scores(*net()[:2], {}, net()[3])
    loss, _, params, batch = net()
    with pytest.raises(ValueError, match="method must be one of"):
        per_sample_gradients(loss, params, batch, method="ghost")


def test_joint_choice(net):
    G = np.eye(3)
    for arguments, words in (
        ((G, 0, 1), "n_rows must be in 1..3"),
        ((G, 1, 4), "n_cols must be in 1..3"),
        ((G, 1, 1, "greedy"), "method must be one of"),
        ((G * np.nan, 1, 1), "G must be finite"),
        ((G, 1, 2, "alternating", [[0]]), "must hold n_cols=2 different columns"),
        ((G, 1, 2, "alternating", [[0, 0]]), "must hold n_cols=2 different columns"),
        ((G, 1, 2, "alternating", [[0, 3]]), r"starts must be in 0..2, got 3"),
        ((G, 1, 2, "exact", [[0, 1]]), "starts must be empty"),
        ((np.ones((40, 40)), 20, 20, "exact"), "at most 2000000 subsets"),
    ):
        with pytest.raises(ValueError, match=words):
            joint_select(*arguments)
    with pytest.raises(TypeError, match="starts must be sequences of ints"):
        joint_select(G, 1, 1, "alternating", [[0.0]])
    oracle = score_oracle(*net())
    with pytest.raises(ValueError, match="'exact' needs the matrix"):
        joint_select(oracle, 1, 1, "exact")
    with pytest.raises(ValueError, match=r"n_rows must be in 1..7"):
        joint_select(oracle, 8, 1)
    with pytest.raises(ValueError, match=r"cols must be in 0..8, got 9"):
        column_mask(net()[2], [9])
    with pytest.raises(ValueError, match="method must be one of"):
        score_oracle(*net(), method="per_sample")
