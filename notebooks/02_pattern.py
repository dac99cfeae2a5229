# %% [markdown]
# # Pattern distance
#
# How far is a matrix from a band, from blocks, from an arrow, if its rows and columns may be reordered? The
# **pattern distance** is the least share of its squares outside a mask, over all orders:
# $d^2 = \min_{P,Q} \sum_{ij} W_{ij}\,(PAQ^\top)_{ij}^2 / \|A\|^2$, where $W$ is 0 in the mask and 1 outside.
# Graphs, correlations and attention heads move rows and columns *together* (`order="common"`).
#
# **What is claimed.** One solver serves every mask. Finding the best order is NP-hard, so each answer comes
# with a lower bound; where the two meet, the order is proved best. A pattern added to a low-rank matrix
# leaves less than low rank alone, at equal rank. A small distance, however, means nothing by itself: it has
# to be compared with shuffled matrices.
#
# Of the paper on pattern distances only the abstract was public. The definitions here are a
# **reconstruction**; the ledger below says for each claim where it comes from, and what happens when one of
# its hypotheses is dropped.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.pattern import load_matrix, planted_pattern
from porism.sims.pattern.figures import FIGURES
from porism.sims.style import style
from porism.theory.pattern import masks, pattern_distance, symbolic
from porism.theory.pattern.nulls import pattern_null

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## A fit with its certificate in four lines
#
# A band hidden by a shuffle and by noise. The bound is reached: no other order is better.

# %%
A, truth = planted_pattern(masks.band(64, 3), signal="sign", noise=0.1, order="common", random_state=0)
fit = pattern_distance(A, masks.band(64, 3), order="common", random_state=0)
print(fit.summary(), "\nplanted order found:", truth.found_by(fit))
assert fit.certified

# %% [markdown]
# ## Derivations
#
# Over random orders each cell is equally likely anywhere, so the mean of $f = \sum W \circ PBQ^\top$ is known
# and no best order can be worse. Diagonal cells stay on the diagonal where the orders are equal. The same
# average, applied to what the SVD leaves, bounds the error $E_r$ of a pattern with a matrix of rank $r$.

# %%
display(symbolic.mean_independent(2, 2), symbolic.mean_common(3), symbolic.low_rank_bound()[1])

# %% [markdown]
# The search swaps two positions at a time. All differences follow from $G = WB^\top + W^\top B$, written out
# here for two positions. The relaxed problem has an exact step: $f$ is a parabola along a line. Shuffling
# the $c$ cells of a row, $s$ of them in the mask, has a mean and a variance in closed form, in the sums $M$
# of its masses and $Q$ of their squares.

# %%
display(symbolic.swap_delta(2), *symbolic.line_search(), *symbolic.row_null())

# %% [markdown]
# ## Figures
#
# Every family, then recovery beside other methods, each of which was made for some of the masks. Spectral
# methods are told the number of blocks, ours their sizes.

# %%
for name in ("F1", "F2"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# How good is the search, and how good are the certificates? Brute force answers for small matrices. For
# large dense ones only the bound P, from singular values, comes close.

# %%
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# A pattern plus a matrix of low rank. Above, both have the same rank: the pattern always leaves less, but it
# also has more numbers to choose. Below, they have the same number of parameters: on blocks the pattern
# wins, on the correlations of one data set it loses.

# %%
axes = FIGURES["F4"](SCALE, 0)

# %% [markdown]
# ## When a distance means something
#
# On real matrices, compare with the grey range of shuffled ones: a dot inside it, or to the right of it, is
# no finding, however small. *Florentine*, *diabetes* and the band of *karate* are such cases. On attention
# heads, let the order of the tokens be: maps of pure noise fit any mask once rows and columns are free
# (lower left). And choose the null with care: heads that feed a sink column look *less* like blocks than
# chance, and only without the sinks can blocks show (lower right).

# %%
for name in ("F5", "F6"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("pattern"), SCALE)

# %% [markdown]
# ## Try it on your own matrix
#
# Put your own matrix in place of this one, and any mask: `masks.from_array` takes weights from 0 to 1.
# `order="common"` if rows and columns are the same things, else `"independent"`.

# %%
mine, names = load_matrix("wine")
mask = masks.block_diagonal([7, 6])
answer = pattern_null(mine, mask, order="common", null="symmetric_entries", n_null=19, random_state=0)
print(answer.summary(), answer.fit.summary(), sep="\n")
print("first block:", ", ".join(names[i] for i in np.sort(answer.fit.row_order[:7])))

with style():
    answer.fit.plot(A=mine)
