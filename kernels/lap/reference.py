"""Truth for the assignment kernels: shortest augmenting paths with dual prices, in plain Python."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["batched"]


def batched(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Source at each position of each problem."""
    out = [_assign(cost.tolist()) for cost in costs]
    return np.array(out, dtype=np.int64).reshape(costs.shape[:2])


def _assign(cost: list[list[float]]) -> list[int]:
    n = len(cost)
    row_price, price = [0.0] * n, [0.0] * (n + 1)
    holder = [-1] * (n + 1)  # source at each position; position n is where a new source enters
    for source in range(n):
        holder[n], at = source, n
        distance, previous, done = [math.inf] * n, [n] * n, [False] * (n + 1)
        while holder[at] >= 0:
            done[at] = True
            r = holder[at]
            for i in range(n):
                slack = cost[r][i] - row_price[r] - price[i]
                if not done[i] and slack < distance[i]:
                    distance[i], previous[i] = slack, at
            at = min((i for i in range(n) if not done[i]), key=lambda i: distance[i])
            step = distance[at]
            for i in range(n + 1):
                if done[i]:
                    row_price[holder[i]] += step
                    price[i] -= step
                elif i < n:
                    distance[i] -= step
        while at != n:
            holder[at] = holder[previous[at]]
            at = previous[at]
    return holder[:n]
