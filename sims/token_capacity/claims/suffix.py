"""Claims on the selected gradient: TC-7, TC-8, TC-8a, TC-8b, TC-8c, TC-8d."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.claims import Evidence, claim
from porism.sims.token_capacity._cut import cut_everywhere
from porism.sims.token_capacity.claims._oracles import ROUNDING, SOURCE, slopes
from porism.sims.token_capacity.worlds import MODELS, position_gradients, random_model, scalar_net

__all__ = ["biased", "last_layer", "prefix_lost", "readout", "true_gradients", "two_passes"]

Floats = NDArray[np.float64]


def _padding(torch: Any, kind: str, rows: int, length: int) -> Any:
    mask = torch.ones((rows, length), dtype=torch.long)
    for row in range(1, rows):
        if kind == "left":
            mask[row, : row + 1] = 0
        elif kind == "right":
            mask[row, length - row - 1 :] = 0
    return mask


@claim(
    "TC-7",
    kind="theorem",
    source=SOURCE + "; the cut is that of A. Simoulin et al. 2024",
    statement="Recording the frozen positions and replaying the selected ones gives the values of the full "
    "model, and the gradient of a full pass in which every activation outside S is a constant, for GPT-2-, "
    "Llama- and BERT-shaped models, any padding, suffixes and random sets.",
    control="a full pass that cuts nothing",
)
def two_passes(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop, select_last, select_random

    repeats, worst, values, total = 1 if scale == "smoke" else 6, 0.0, 0.0, 0
    for family in MODELS * repeats:
        model = random_model(family, rng)
        named = list(model.base_model.named_parameters())
        for padding in ("none", "left", "right"):
            ids = torch.from_numpy(rng.integers(3, 31, (3, 9)))
            mask = _padding(torch, padding, 3, 9)
            chosen = (
                select_last(mask, 3),
                select_random(mask, 3, always=(), generator=int(rng.integers(2**31))),
            )
            for positions in chosen:
                kept = torch.zeros_like(mask, dtype=torch.bool).scatter(1, positions, True)
                with cut_everywhere(model, torch.ones_like(kept) if broken else kept, mask):
                    full = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
                full = full.gather(1, positions[..., None].expand(-1, -1, full.shape[2]))
                out = SubsetBackprop(model).forward(positions, input_ids=ids, attention_mask=mask).hidden
                gap = float((out - full).detach().abs().max() / full.detach().abs().max())
                values = max(values, gap)
                c = torch.from_numpy(rng.standard_normal(tuple(full.shape)))
                own, found = slopes((full * c).sum(), named), slopes((out * c).sum(), named)
                size = max(float(np.abs(g).max()) for g in own.values())
                worst = max(worst, *(float(np.abs(own[n] - found[n]).max()) / size for n in own))
                total += 1
    return Evidence(
        max(worst, values) <= 1e-12,
        worst,
        0.0,
        1e-12,
        ROUNDING + ": some 4000 roundings over three layers",
        total,
        {"largest relative difference of values": values},
        quantity="largest difference of gradients over the largest entry",
    )


def _selected(
    rng: np.random.Generator, family: str, positions: Any
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Gradients of the weights of linear maps: through S, summed true ones of S, and full ones.

    Positions are an int (the last ones of 12) or a list; the loss reads them alone.
    """
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop

    model = random_model(family, rng)
    ids = torch.from_numpy(rng.integers(3, 31, (4, 12)))
    S = list(range(12 - positions, 12)) if isinstance(positions, int) else positions
    c = torch.from_numpy(rng.standard_normal((4, len(S), 16)))

    def run() -> Any:
        return (model.base_model(input_ids=ids).last_hidden_state[:, S] * c).sum()

    where = torch.tensor([S] * 4)
    out = SubsetBackprop(model).forward(where, input_ids=ids).hidden
    watched = position_gradients(model, run)
    named = [(name, p) for name, p in model.named_parameters() if name.removesuffix(".weight") in watched]
    cut, full = slopes((out * c).sum(), named), slopes(run(), named)
    found = {}
    for name, (x, g) in watched.items():
        true = np.einsum("nto,nti->oi", g[:, S], x[:, S])
        parts = [part[f"{name}.weight"] for part in (cut, full)]
        if family == "gpt2":  # its maps are stored transposed
            parts = [part.T for part in parts]
        found[name] = parts[0], true, parts[1]
    return found


def _gap(a: Floats, b: Floats) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


@claim(
    "TC-8",
    kind="theorem",
    source=SOURCE,
    statement="For the last k positions of a causal model and a loss that reads only these, the selected "
    "gradient of every linear map is the sum over S of g_t x_t' with the true g_t of the full backward pass.",
    control="positions 2, 5, 8 and 11 of 12",
)
def true_gradients(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    require("transformers", "hf")
    draws, worst, maps = 3 if scale == "smoke" else 12, 0.0, 0
    for number in range(draws):
        k = int(rng.integers(1, 12))
        family = ("llama", "gpt2")[number % 2]
        for cut, true, _ in _selected(rng, family, [2, 5, 8, 11] if broken else k).values():
            worst = max(worst, _gap(cut, true))
            maps += 1
    return Evidence(
        worst <= 1e-12,
        worst,
        0.0,
        1e-12,
        ROUNDING,
        maps,
        quantity="largest relative difference of a map's gradient",
    )


def _language(rng: np.random.Generator, k: int) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Gradients of all parameters of a causal language model with labels on the last k of 12 positions."""
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop

    model = random_model("llama", rng)
    ids = torch.from_numpy(rng.integers(3, 31, (4, 12)))
    labels = ids.clone()
    labels[:, : 12 - k] = -100
    logits = model(input_ids=ids).logits[:, :-1]
    full = torch.nn.functional.cross_entropy(logits.reshape(-1, 31), labels[:, 1:].reshape(-1))
    # label j is predicted at j - 1: the last k + 1 positions hold all predicting ones
    cut = SubsetBackprop(model).loss(labels, k + 1, input_ids=ids)
    named = list(model.named_parameters())
    return slopes(cut, named), slopes(full, named)


EQUAL = ("self_attn.q_proj", "self_attn.o_proj", "mlp.", "post_attention_layernorm")


@claim(
    "TC-8a",
    kind="theorem",
    source=SOURCE,
    statement="For a causal suffix query, attention output, MLP and second norm of the last layer, the final "
    "norm and the untied head have the gradient of full fine-tuning.",
    control="the same parts one layer before",
)
def last_layer(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    require("transformers", "hf")
    draws, worst, parts, first = 3 if scale == "smoke" else 20, 0.0, 0, []
    for _ in range(draws):
        cut, full = _language(rng, int(rng.integers(1, 8)))
        layer = f"model.layers.{1 if broken else 2}."
        for name in full:
            if name in ("model.norm.weight", "lm_head.weight") or (
                name.startswith(tuple(layer + part for part in EQUAL))
            ):
                worst = max(worst, _gap(cut[name], full[name]))
                parts += 1
        name = "model.layers.2.input_layernorm.weight"
        first.append(_gap(cut[name], full[name]))
    return Evidence(
        worst <= 1e-12,
        worst,
        0.0,
        1e-12,
        ROUNDING,
        parts,
        {"first norm of the last layer, which also feeds the prefix: smallest": min(first)},
        quantity="largest relative difference from the full gradient",
    )


@claim(
    "TC-8b",
    kind="refuted",
    source="a natural reading of the abstract",
    statement="Fine-tuning through a suffix gives every weight of the last layer the gradient of full "
    "fine-tuning. (False for keys and values: the whole part of the prefix is lost, most of the gradient "
    "where 4 of 12 positions are kept.)",
    control="query, attention output and MLP of that layer",
)
def prefix_lost(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    require("transformers", "hf")
    draws = 4 if scale == "smoke" else 24
    parts = ("q_proj", "o_proj", "down_proj") if broken else ("k_proj", "v_proj")
    lost: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(draws):
        found = _selected(rng, "llama", 4)
        for part, values in lost.items():
            name = next(name for name in found if name.startswith("model.layers.2.") and name.endswith(part))
            cut, _, full = found[name]
            values.append(_gap(cut, full))
    least = min(min(values) for values in lost.values())
    return Evidence(
        least > 0.1,
        least,
        "0 by the wording",
        0.1,
        "a counterexample, far from rounding",
        draws,
        {f"{part}: mean": float(np.mean(values)) for part, values in lost.items()},
        quantity="smallest relative difference from the full gradient",
    )


@claim(
    "TC-8c",
    kind="refuted",
    source="a natural reading of the abstract",
    statement="For every set S the selected gradient is the sum of the true gradients of its positions. "
    "(False where S is not a suffix: in a scalar net of two layers S = {0, 2} gives 32/9, and the true sum "
    "is 131/36.)",
    control="the suffixes {2}, {1, 2} and all positions",
)
def biased(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    given = [((2,), Fraction(5, 2), Fraction(5, 2)), ((1, 2), Fraction(157, 36), Fraction(157, 36))]
    given += [((0, 2), Fraction(32, 9), Fraction(131, 36)), ((0, 1, 2), Fraction(11, 2), Fraction(11, 2))]
    exact = all((scalar_net(S).cut, scalar_net(S).true) == (cut, true) for S, cut, true in given)
    sets = [(2,), (1, 2), (0, 1, 2)] if broken else [(0, 2)]
    least, cases = Fraction(10**9), 0
    for _ in range(20 if scale == "smoke" else 200):
        x = [int(k) for k in rng.integers(1, 10, 3)]
        w = Fraction(int(rng.integers(1, 10)), int(rng.integers(1, 10)))
        for S in sets:
            found = scalar_net(S, x=x, w=w)
            least = min(least, abs(found.cut - found.true))
            cases += 1
    return Evidence(
        exact and least > 0,
        float(least),
        "0 by the wording",
        0.0,
        "exact fractions",
        cases,
        {"S = {0, 2}, inputs 1, 2, 3, weight 1/2: selected": str(scalar_net([0, 2]).cut)}
        | {"true sum": str(scalar_net([0, 2]).true), "the four cases of the oracle": str(exact)},
        quantity="smallest difference from the true sum",
    )


@claim(
    "TC-8d",
    kind="theorem",
    source=SOURCE,
    statement="A readout outside S has gradient exactly zero in every parameter below it, and a loss none of "
    "whose labels is predicted from S is refused.",
    control="the readout in S",
)
def readout(scale: str, rng: np.random.Generator, broken: bool = False) -> Evidence:
    torch = require("torch", "torch")
    from porism.sims.token_capacity import SubsetBackprop

    draws, largest, refused, total = 2 if scale == "smoke" else 8, 0.0, 0, 0
    for family in MODELS * draws:
        model = random_model(family, rng)
        ids = torch.from_numpy(rng.integers(3, 31, (3, 10)))
        step = SubsetBackprop(model)
        read = 0 if family == "bert" else 9
        others = rng.permutation(np.setdiff1d(np.arange(10), [read]))[:4]
        S = torch.from_numpy(np.stack([np.r_[others[:3], read] if broken else others] * 3))
        with torch.no_grad():
            whole = model.base_model(input_ids=ids).last_hidden_state
        c = torch.from_numpy(rng.standard_normal((3, 16)))
        placed = step.forward(S, input_ids=ids).scatter(whole)
        found = slopes((placed[:, read] * c).sum(), list(model.base_model.named_parameters()))
        largest = max(largest, *(float(np.abs(g).max()) for g in found.values()))
        labels = torch.full_like(ids, -100)
        predicted = read if family == "bert" else 9
        labels[:, predicted] = ids[:, predicted]
        reads = predicted if family == "bert" else predicted - 1
        outside = np.setdiff1d(np.arange(10), [reads])[-4:]
        kept = torch.from_numpy(np.stack([np.r_[outside[:3], reads] if broken else outside] * 3))
        try:
            step.loss(labels, kept, input_ids=ids)
        except ValueError as error:
            refused += "no label falls on a selected position" in str(error)
        total += 1
    return Evidence(
        largest == 0 and refused == total,
        largest,
        0.0,
        0.0,
        "constants have no gradient",
        total,
        {"losses refused": f"{refused} of {total}"},
        quantity="largest entry of a gradient",
    )
