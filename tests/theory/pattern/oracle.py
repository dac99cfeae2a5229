"""The fourteen cases of known optimum: A, mask, and what full enumeration gives in each mode.

Each mode: (mass outside, total mass, number of optimal orders or pairs, bounds by kind).
"""

from fractions import Fraction as F

import numpy as np

from porism.theory.pattern import masks


def graph(n, edges):
    A = np.zeros((n, n), int)
    for i, j in edges:
        A[i, j] = A[j, i] = 1
    return A


def weighted(n):
    gap = abs(np.subtract.outer(range(n), range(n)))
    return masks.from_array(np.select([gap == 0, gap == 1], [1.0, 0.5], 0.0))


CUBE = graph(8, [(i, i ^ b) for i in range(8) for b in (1, 2, 4)])
STAR = graph(5, [(0, i) for i in range(1, 5)])
K33 = graph(6, [(i, j) for i in range(3) for j in range(3, 6)])
CYCLE = graph(5, [(i, (i + 1) % 5) for i in range(5)])
PATH = [[0, 0, 1, 0, 1], [0, 0, 0, 1, 1], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
O5 = [[-3, -3, 3, 0], [1, 1, 2, -4], [0, -3, -1, 4], [0, -4, 0, -3]]
O6 = [[1, -2, 4, 4, -4], [-3, -3, -3, 1, -1], [0, -2, 4, 2, 1]]
O7 = [[4, 3, 3, 3, -4], [3, 4, -2, -3, -4], [3, 4, 1, 1, 3], [-4, 3, 4, -3, 4], [3, -2, 0, 3, 4]]
O11 = [[-3, 3, 1, -1], [-4, 2, -1, 3], [-1, 1, -3, 0], [-4, 2, -4, 2]]
O13 = [[4, 2, 2, 3], [-2, -1, -3, -4], [-1, 1, 4, -3], [4, 2, 0, -1]]
O14 = [[3, 0, 0, 0, 0], [0, 3, 0, 0, 0], [2, 0, 1, 0, 0], [5, 5, 0, 0, 0], [0, 1, 4, 4, 3]]
TWO, ONE = "independent", "common"

CASES = {
    "O1": (
        [[0, 2, 0], [1, 0, 0], [0, 0, 3]],
        masks.band(3, 0),
        {TWO: (0, 14, 6, {}), ONE: (5, 14, 6, {"G": F(5, 14)})},
    ),
    "O2": (PATH, masks.band(5, 1), {ONE: (0, 8, 2, {}), TWO: (0, 8, 44, {})}),
    "O3": (CYCLE, masks.band(5, 1), {ONE: (2, 10, 10, {"G": 0.2}), TWO: (0, 10, 10, {})}),
    "O4": (
        1 - np.eye(4, dtype=int),
        masks.block_diagonal([2, 2]),
        {ONE: (8, 12, 24, dict.fromkeys("RTP", F(1, 3)) | {"G": F(2, 3)}), TWO: (4, 12, 96, {"R": F(1, 3)})},
    ),
    "O5": (
        O5,
        masks.block_diagonal([2, 2]),
        {TWO: (27, 100, 32, {"R": 0.07, "T": 0.20, "P": 0.179792}), ONE: (39, 100, 8, {"G": 0.38})},
    ),
    "O6": (
        O6,
        masks.block_diagonal([1, 2], [2, 3]),
        {TWO: (20, 107, 24, {"R": 0.112150, "T": 0.158879, "P": 0.139811})},
    ),
    "O7": (
        O7,
        masks.lower_triangular(5),
        {
            TWO: (55, 253, 9, {"R": F(55, 253), "T": F(55, 253), "P": 0.164115}),
            ONE: (63, 253, 3, {"G": F(63, 253)}),
        },
    ),
    "O8": (STAR, masks.arrowhead(5, 1), {ONE: (0, 8, 24, {}), TWO: (0, 8, 576, {})}),
    "O9": (
        STAR,
        masks.band(5, 1),
        {ONE: (4, 8, 72, {"T": 0.125, "P": 0.02, "G": 0.25}), TWO: (2, 8, 1152, {})},
    ),
    "O10": (CUBE, masks.band(8, 3), {ONE: (2, 24, 192, {})}),
    "O10 w=4": (CUBE, masks.band(8, 4), {ONE: (0, 24, None, {})}),
    "O11": (
        O11,
        weighted(4),
        {
            TWO: (22.5, 101, 2, {"R": 0.146040, "T": 0.185644, "P": 0.141934}),
            ONE: (31.5, 101, 2, {"G": 0.274752}),
        },
    ),
    "O12": (K33, masks.block_diagonal([3, 3]), {ONE: (10, 18, 648, {"G": F(1, 3)})}),
    "O12 bipartite": (K33, masks.bipartite(3, 3), {ONE: (0, 18, 72, {})}),
    "O13": (
        O13,
        masks.sink(4, 4, 1),
        {TWO: (74, 111, 144, {"T": F(2, 3), "P": F(2, 3)}), ONE: (74, 111, 6, {})},
    ),
    "O14": (
        O14,
        masks.vertical_slash(5, [0], [0, 1]),
        {ONE: (17, 115, 4, {"G": 0.008696}), TWO: (5, 115, 4, {})},
    ),
}
