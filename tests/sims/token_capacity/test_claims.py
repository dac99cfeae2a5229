"""The ledger of token capacity: every claim and its control, on several streams, and its oracles."""

import math

import numpy as np
import pytest

from porism import sims
from porism.sims.token_capacity import _cut
from porism.sims.token_capacity.claims import _oracles as oracles
from porism.sims.token_capacity.claims import prefixes
from porism.sims.token_capacity.claims.coverage import _filtered
from porism.sims.token_capacity.claims.width import _limit

LEDGER = {claim.id: claim for claim in sims.ledger("token_capacity")}
KINDS = (
    dict.fromkeys(["TC-2g", "TC-4c"], "statistical")
    | dict.fromkeys(["TC-2h", "TC-5f", "TC-9c"], "empirical")
    | dict.fromkeys(["TC-1b", "TC-2c", "TC-2e", "TC-2x", "TC-3i", "TC-3j", "TC-4b"], "refuted")
    | dict.fromkeys(["TC-5b", "TC-5d", "TC-5e", "TC-6e", "TC-6g", "TC-8b", "TC-8c", "TC-9b"], "refuted")
    | {"TC-10": "refuted"}
)


def test_the_ledger_is_complete():
    numbers = {int("".join(c for c in id[3:] if c.isdigit())) for id in LEDGER}
    assert numbers == set(range(1, 11))
    assert {f"TC-{k}" for k in range(1, 11)} <= set(LEDGER)
    assert {id: claim.kind for id, claim in LEDGER.items()} == dict.fromkeys(LEDGER, "theorem") | KINDS
    assert all(claim.module == "token_capacity" for claim in LEDGER.values())
    for claim in LEDGER.values():  # what is wrong with a wording stands beside it
        assert (claim.kind == "refuted") == any(word in claim.statement for word in ("(False", "(Not "))


def test_weight_gradients_by_hand():
    """Oracle O-1: blocks and the tied kernel."""
    X = np.array([[[1.0, 0], [0, 2]], [[1, 1], [1, -1]]])
    G = np.array([[[1.0], [1]], [[2], [-1]]])
    J = oracles.weight_gradients(X, G)
    blocks = [J[:, t] @ J[:, t].T for t in range(2)]
    assert blocks[0].tolist() == [[1, 2], [2, 8]]
    assert blocks[1].tolist() == [[4, 2], [2, 2]]
    assert (J.sum(1) @ J.sum(1).T).tolist() == [[5, 7], [7, 10]]
    untied = np.linalg.eigvalsh(sum(blocks))
    assert oracles.entropy_rank(untied) == pytest.approx(1.615560524965, abs=1e-11)
    assert oracles.entropy_rank(np.zeros(3)) == 0


def test_marginals_by_hand():
    """Oracle O-3: weighted ranks of inputs and gradients without a Gram matrix."""
    X, G = np.array([[1.0, 0], [0, 2], [1, 1]]), np.array([[1.0, 0], [1, 1], [0, 3]])
    whole, inputs, grads = oracles.marginal_ranks(X, G)
    assert whole == pytest.approx(1.896012204733, abs=1e-11)
    assert inputs == pytest.approx(1.505617329775, abs=1e-11)
    assert grads == pytest.approx(1.531550482421, abs=1e-11)
    plain = [oracles.entropy_rank(np.linalg.eigvalsh(Z @ Z.T)) for Z in (X, G)]
    assert plain == pytest.approx([1.740025345276, 1.542901911523], abs=1e-11)


def test_ranks():
    assert oracles.exact_rank(np.array([[0, 1], [0, 2], [3, 0]])) == 2
    assert oracles.exact_rank(np.array([[1, 2, 3], [2, 4, 6]])) == 1
    assert oracles.exact_rank(np.zeros((2, 2), dtype=int)) == 0
    assert oracles.matrix_rank(np.diag([1.0, 1e-4, 1e-12])) == 2
    assert oracles.participation(np.diag([1.0, 1, 0, 0])) == 2
    assert oracles.alignment(np.eye(2), np.array([[1.0, 5], [5, 0]])) == pytest.approx(1 / math.sqrt(102))


def test_ranges():
    x, y = np.eye(4)[:, :2], np.eye(4)[:, 1:3]
    assert oracles.outside(x, y) == pytest.approx(1.0)
    assert oracles.outside(x, np.eye(4)[:, :3]) < 1e-15
    assert oracles.least_direction(np.diag([3.0, -1.0, 2.0])) == pytest.approx(-1 / 3)


def test_complex_slopes():
    at = np.random.default_rng(0).standard_normal((2, 3))
    found = oracles.complex_slope(lambda z: np.sin(z).sum() + z[0, 0] * z[1, 2], at)
    true = np.cos(at)
    true[0, 0] += at[1, 2]
    true[1, 2] += at[0, 0]
    assert found == pytest.approx(true.ravel(), abs=1e-14)


def test_prefixes_by_hand():
    start = [sorted(set(part.tolist()) - {-1}) for part in oracles.prefixes(prefixes.RAGGED, "start")]
    end = [sorted(set(part.tolist()) - {-1}) for part in oracles.prefixes(prefixes.RAGGED, "end")]
    assert [len(part) for part in start] == [3, 1]
    assert [len(part) for part in end] == [4, 1]
    a, b = np.array([0, 1, 2, 2]), np.array([0, 0, 1, -1])
    assert prefixes._refines(a, b)
    assert not prefixes._refines(b, a)
    X = np.array([[1.0], [1.0], [3.0], [5.0]])
    assert prefixes._within(X, np.array([0, 0, 1, 1])) == pytest.approx(0.4)


def test_the_limit_of_features():
    """By drawing: 200 000 features, standard error of an entry below 0.01."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((3, 4))
    H = np.maximum(data @ rng.standard_normal((4, 200_000)), 0)
    spread = np.einsum("if,jf->ij", H**2, H**2) / 200_000
    assert np.abs(H @ H.T / 200_000 - _limit(data)).max() < 5 * math.sqrt(spread.max() / 200_000)


def test_filtered_coverage_by_hand():
    """Diagonal moments: shares add up."""
    C = np.stack([np.diag([3.0, 0]), np.diag([0.0, 1])])
    lam = 0.1 * 4 / 2
    wanted = [9 / 3.2 / 4, (9 / 3.2 + 1 / 1.2) / 4]
    assert _filtered(C, np.array([0, 1]), 0.1, False) == pytest.approx(wanted, abs=1e-14)
    assert lam == pytest.approx(0.2)


@pytest.mark.full
def test_a_cut_leaves_values_and_nothing_behind(torch, hf):
    from porism.sims.token_capacity.worlds import random_model

    model = random_model("llama", 0)
    ids, mask = torch.arange(3, 15).reshape(2, 6), torch.ones((2, 6), dtype=torch.long)
    plain = model.base_model(input_ids=ids).last_hidden_state
    kept = torch.zeros((2, 6), dtype=torch.bool)
    kept[:, 4:] = True
    embeds = model.get_input_embeddings()(ids).detach().requires_grad_()
    with _cut.cut_everywhere(model, kept, mask):
        cut = model.base_model(inputs_embeds=embeds).last_hidden_state
    (grad,) = torch.autograd.grad(cut[:, -1].pow(2).sum(), embeds)
    torch.testing.assert_close(cut, plain, rtol=1e-12, atol=1e-12)
    assert grad[:, :4].abs().max() == 0
    assert grad[:, 4:].abs().amin(2).min() > 0
    after = model.base_model(input_ids=ids).last_hidden_state
    assert torch.equal(after, plain)
    assert _cut.NAME not in hf.modeling_utils.ALL_ATTENTION_FUNCTIONS
