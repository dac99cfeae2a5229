"""Claims on energy and effective rank along a causal sequence: TC-5d, TC-5e, TC-5f."""

import math
from typing import Any

import numpy as np

from porism.checks import require
from porism.claims import Evidence, claim
from porism.sims.token_capacity._models import random_model, value_energies
from porism.sims.token_capacity.claims._oracles import SOURCE, hidden_states
from porism.sims.token_capacity.worlds import causal_averages
from porism.theory.token_capacity import effective_rank

__all__ = ["averages", "energy", "rises"]


def _order(values: Any) -> float:
    """Spearman correlation with the position, no two values being equal."""
    ranks = np.argsort(np.argsort(values))
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])


@claim(
    "TC-5d",
    kind="refuted",
    source="abstract",
    statement="Under causal attention the effective rank of the states grows with the position. (False for "
    "equal attention over independent tokens whose mean is not zero: the mean stays, all else falls as 1 / "
    "t, and the effective rank of the uncentred Gram matrix falls toward 1.)",
    control="tokens of mean zero, where it stays flat",
)
def averages(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    draws, worst = 3 if scale == "smoke" else 20, 0.0
    numbers: dict[str, float | int | str] = {}
    for _ in range(draws):
        X = causal_averages(rng, mean=0.0 if broken else 0.45)
        centred = X - X.mean(0)
        plain, rest = ([float(effective_rank(Z[:, t].T @ Z[:, t])) for t in (0, 63)] for Z in (X, centred))
        energy = [float((centred[:, t] ** 2).sum()) for t in (0, 63)]
        worst = max(worst, plain[1] / plain[0])
        numbers = {
            "effective rank at t = 1 and 64": f"{plain[0]:.2f}, {plain[1]:.2f}",
            "centred": f"{rest[0]:.2f}, {rest[1]:.2f}",
            "centred energy at t = 64 over that at t = 1 (1/64 expected)": energy[1] / energy[0],
        }
    return Evidence(
        worst < 0.5,
        worst,
        ">= 1 by the wording",
        0.5,
        "a counterexample: less than half is left",
        draws,
        numbers,
        quantity="largest ratio of effective rank at t = 64 to that at t = 1",
    )


def _energies(rng: np.random.Generator, std: float, every: bool) -> dict[int, Any]:
    """Trace of K_t of the value maps of a random causal model, by position."""
    torch = require("torch", "torch")
    model = random_model("llama", rng, std=std, jitter=0.0, layers=4, width=32)
    ids, labels = (torch.from_numpy(rng.integers(3, 31, (16, 16))) for _ in range(2))
    return value_energies(model, ids, labels, slice(None) if every else slice(-1, None))


@claim(
    "TC-5e",
    kind="refuted",
    source="abstract",
    statement="Later positions carry larger kernels. (False: in a random causal model with a loss averaged "
    "over all positions, tr K_t of the values in the second layer falls along the sequence.)",
    control="a loss at the last position, where there is no such order in the last layer",
)
def energy(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    require("transformers", "hf")
    models, found, ratio = 4 if scale == "smoke" else 16, [], []
    other = []
    for _ in range(models):
        second, last = _energies(rng, 0.2, every=not broken).values()
        found.append(_order(last if broken else second))
        ratio.append(float(second[0] / second[-1]))
        small = next(iter(_energies(rng, 0.02, every=True).values()))
        other.append(float(small[0] / small[-1]))
    mean = float(np.mean(found))
    return Evidence(
        mean <= -0.9,
        mean,
        "> 0 by the wording",
        0.9,
        "a counterexample: nearly the reverse order",
        models,
        {
            "largest of a model": max(found),
            "first over last position, median": float(np.median(ratio)),
            "the same with weights of size 0.02": float(np.median(other)),
        },
        quantity="mean Spearman correlation of tr K_t with t",
    )


def _rank_orders(rng: np.random.Generator, family: str) -> list[float]:
    """Spearman correlation of rank_e(A_t) with t, after the first layer and after the last of four."""
    model = random_model(family, rng, std=0.2, jitter=0.0, layers=4, width=32)
    states = hidden_states(model, rng.integers(3, 31, (64, 16)))
    kept = [states[layer].swapaxes(0, 1) for layer in (1, 4)]
    return [_order([float(effective_rank(X.T @ X)) for X in state]) for state in kept]


@claim(
    "TC-5f",
    kind="empirical",
    source=SOURCE,
    statement="What is left of the dominance of later positions: for rows of random tokens through random "
    "Llama-shaped models of four layers the effective rank of A_t rises along the sequence in the last "
    "layer, with a mean Spearman correlation above 0.3, and less after the first. It is no law: GPT-2-shaped "
    "models of the same size show no such order.",
    control="bidirectional models",
)
def rises(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    models = 16 if scale == "smoke" else 64
    found = np.array([_rank_orders(rng, "bert" if broken else "llama") for _ in range(models)])
    first, last = found.mean(0)
    error = float(found[:, 1].std(ddof=1) / math.sqrt(models))
    numbers = {"after the first layer": float(first), "standard error, last layer": error}
    if not broken:
        others = np.array([_rank_orders(rng, "gpt2") for _ in range(models // 2)])
        numbers["GPT-2's shape, last layer"] = float(others[:, 1].mean())
    return Evidence(
        bool(last > 0.3 and last > first),
        float(last),
        "> 0.3",
        0.0,
        "a trend in a small world; the bar is more than 3 standard errors from 0",
        models,
        numbers,
        quantity="mean Spearman correlation of rank_e(A_t) with t, last layer",
    )
