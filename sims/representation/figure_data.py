"""What the figures of the representation module show, as arrays."""

import numpy as np
from numpy.typing import NDArray

from porism.checks import generator, integer
from porism.sims.representation.digits import digits_images, trained_digits
from porism.sims.representation.worlds import alive_layer, random_kernels, random_layer, reshuffled, scramble
from porism.theory.representation import Layer, canonicalise, cka_range, privileged_similarity, similarity

__all__ = [
    "MEASURES",
    "digits_pairs",
    "lowest_draws",
    "measures_by_primitive",
    "scrambled_pairs",
    "two_units",
]

Floats = NDArray[np.float64]

MEASURES = ("CKA", "CCA", "Procrustes", "RSA", "CKA, parallel merged", "privileged CKA")
"""Rows of `measures_by_primitive`."""

WITHOUT_LINEAR = ("duplicate", "null", "cancel", "scale", "permute")


def scrambled_pairs(count: int, linear: bool, rng: np.random.Generator | int | None) -> Floats:
    """CKA of two scrambled copies of one layer: plain, with parallel units merged, and privileged.

    12 units, 5 inputs, 3 outputs, 200 Gaussian samples.

    Parameters
    ----------
    count : int
        Number of layers, >= 1.
    linear : bool
        Whether copies hold groups that cancel as linear pieces.
    rng : Generator, int or None
        Source.

    Returns
    -------
    float64 array of shape (3, count)
        CKA at the three levels.

    Examples
    --------
    >>> scrambled_pairs(2, True, 0)[2].round(9)
    array([1., 1.])
    """
    draw, rows = generator(rng), []
    for _ in range(integer("count", count, 1)):
        X, net = draw.normal(size=(200, 5)), random_layer(12, 5, 3, draw)
        primitives = (*WITHOUT_LINEAR, "linear") if linear else WITHOUT_LINEAR
        a, b = (scramble(net, draw, primitives) for _ in range(2))
        rows.append((similarity(a.hidden(X), b.hidden(X)), _merged(a, b, X), privileged_similarity(a, b, X)))
    return np.array(rows).T


def two_units(layers: int, draws: int, rng: np.random.Generator | int | None) -> tuple[Floats, Floats]:
    """CKA of random scalings of two units beside their squared correlation, the infimum of PS-2.

    ``CKA(s, t) >= corr(h_1, h_2)^2``

    Parameters
    ----------
    layers, draws : int
        Number of layers, and of pairs of scalings of each, >= 1.
    rng : Generator, int or None
        Source.

    Returns
    -------
    (float64 array (layers,), float64 array (layers, draws))
        Squared correlations and CKA.

    Examples
    --------
    >>> bound, found = two_units(3, 4, 0)
    >>> bool((found >= bound[:, None] - 1e-12).all())
    True
    """
    draw, bounds, found = generator(rng), [], []
    for _ in range(integer("layers", layers, 1)):
        mix = draw.uniform(0, 1)
        common = draw.normal(size=40)
        own = draw.normal(size=(40, 2))
        H = (np.sqrt(mix) * common[:, None] + np.sqrt(1 - mix) * own) * np.exp(draw.normal(size=2))
        bounds.append(cka_range(H).lower)
        found.append([_scaled(H, draw) for _ in range(integer("draws", draws, 1))])
    return np.array(bounds), np.array(found)


def _scaled(H: Floats, draw: np.random.Generator) -> float:
    return similarity(*(H * np.sqrt(random_kernels(H, 2, draw)[k]) for k in draw.integers(0, 2, 2)))


def lowest_draws(layers: int, draws: int, rng: np.random.Generator | int | None) -> Floats:
    """Lowest CKA that random scalings of seven units find, beside the infimum of PS-2.

    Both sides scaled, and one side fixed at another layer's units.

    Parameters
    ----------
    layers, draws : int
        Number of layers, and of draws for each, >= 1.
    rng : Generator, int or None
        Source.

    Returns
    -------
    float64 array of shape (2, 2, layers)
        Both sides, one side; infimum, lowest draw.

    Examples
    --------
    >>> both, one = lowest_draws(2, 100, 0)
    >>> bool((both[1] >= both[0] - 1e-12).all() and (one[1] >= one[0] - 1e-12).all())
    True
    """
    draw, rows = generator(rng), []
    for _ in range(integer("layers", layers, 1)):
        X = draw.normal(size=(60, 4))
        H, fixed = (alive_layer(units, X, 2, draw).hidden(X) for units in (7, 5))
        unit = H - H.mean(0)
        unit /= np.linalg.norm(unit, axis=0)
        fixed = fixed - fixed.mean(0)
        G = np.square(unit.T @ unit)
        L = np.square(fixed.T @ unit).sum(0) / np.linalg.norm(fixed.T @ fixed)
        s, t = (random_kernels(H, integer("draws", draws, 1), draw) for _ in range(2))
        size_s, size_t = (np.sqrt(np.einsum("ti,ij,tj->t", w, G, w)) for w in (s, t))
        both = np.einsum("ti,ij,tj->t", s, G, t) / (size_s * size_t)
        single = s @ L / size_s
        rows.append([[cka_range(H).lower, both.min()], [cka_range(H, fixed).lower, single.min()]])
    return np.array(rows).transpose(1, 2, 0)


def measures_by_primitive(count: int, rng: np.random.Generator | int | None) -> tuple[list[str], Floats]:
    """What each measure says of a layer and its scrambled copy, by the symmetry used.

    Mean over layers; 1 is right in every cell, as the functions are equal.

    Parameters
    ----------
    count : int
        Number of layers, >= 1.
    rng : Generator, int or None
        Source.

    Returns
    -------
    (list of str, float64 array of shape (6, 6))
        Names of the columns; rows are `MEASURES`.

    Examples
    --------
    >>> names, found = measures_by_primitive(2, 0)
    >>> names[0], found[-1].round(9).tolist()
    ('scale', [1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    primitives = {
        "scale": ["scale"],
        "duplicate": ["duplicate"],
        "add null,\none side": ["null"],
        "add null,\nboth sides": ["null"],
        "add six,\nboth sides": ["linear"],
        "all": [*WITHOUT_LINEAR, "linear"],
    }
    draw, total = generator(rng), np.zeros((len(MEASURES), len(primitives)))
    for _ in range(integer("count", count, 1)):
        X, net = draw.normal(size=(150, 5)), random_layer(12, 5, 3, draw)
        for column, (name, chosen) in enumerate(primitives.items()):
            other = scramble(net, draw, chosen)
            start = scramble(net, draw, chosen) if "both" in name or name == "all" else net
            hidden = start.hidden(X), other.hidden(X)
            total[:4, column] += [similarity(*hidden, kind) for kind in ("cka", "cca", "procrustes", "rsa")]
            total[4:, column] += [_merged(start, other, X), privileged_similarity(start, other, X)]
    return list(primitives), total / count


def digits_pairs(
    nets: int, copies: int, rng: np.random.Generator | int | None, epochs: int = 80
) -> dict[str, Floats]:
    """CKA and privileged CKA of nets trained on digits, of scrambled copies, and of other functions.

    Held-out images; copies are of the first net.

    Parameters
    ----------
    nets : int
        Number of nets trained from other seeds, >= 2.
    copies : int
        Number of scrambled copies, and of nets with outgoing weights shuffled, >= 1.
    rng : Generator, int or None
        Source.
    epochs : int, default 80
        Length of training.

    Returns
    -------
    dict of str to float64 array of shape (2, pairs)
        By kind of pair: CKA, privileged CKA.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.

    Examples
    --------
    >>> list(digits_pairs(2, 1, 0))  # doctest: +SKIP
    ['trained independently', 'same function, scrambled', 'same units, other function']
    """
    draw = generator(rng)
    seeds = draw.integers(2**31, size=integer("nets", nets, 2)).tolist()
    trained = [trained_digits(seed, epochs=epochs).layer for seed in seeds]
    X, first, count = digits_images()[2], trained[0], integer("copies", copies, 1)
    pairs: dict[str, list[tuple[Layer, Layer]]] = {
        "trained independently": [(trained[i], trained[j]) for i in range(nets) for j in range(i)],
        "same function, scrambled": [
            (first, scramble(first, draw, ["scale", "null"], extra=40)) for _ in range(count)
        ],
        "same units, other function": [(first, reshuffled(first, draw)) for _ in range(count)],
    }
    return {
        name: np.array(
            [(similarity(a.hidden(X), b.hidden(X)), privileged_similarity(a, b, X)) for a, b in found]
        ).T
        for name, found in pairs.items()
    }


def _merged(a: Layer, b: Layer, X: Floats) -> float:
    """CKA after parallel units are merged."""
    one, two = (canonicalise(net, "parallel").features(X) for net in (a, b))
    return similarity(one, two)
