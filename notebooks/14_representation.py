# %% [markdown]
# # Comparing representations without being fooled by symmetries
#
# Two networks can compute the same function with other parameters: units scaled, copied, or added so that
# they do nothing. Measures such as CKA read the hidden matrix, which all of this changes. **When do two
# layers differ, and when do only their parameters?**
#
# One hidden layer $f(x) = \sum_k a_k\,\varphi(w_k \cdot x + b_k) + c$, hidden matrix $H$ with one column
# $h_k$ a unit, kernel $K = HH^\top$ of centred columns.
#
# **What this notebook shows.** PS-1 to PS-7 are *identities*, exact up to rounding. PS-8 is a *toy
# reproduction* on scikit-learn's digits. Only an abstract was public: definitions are a **reconstruction**,
# and no benchmark of the paper is repeated. What holds, and what does not:
#
# - *PS-2, PS-3.* How far scaling, duplication and added units can push CKA, in closed form.
# - *PS-4.* Which measure is fooled depends on the symmetry. CCA does not see scaling; added units move it.
# - *PS-5.* Scaling, duplication and null units taken one by one are **not all**: six units can cancel
#   although no two are parallel. The complete form pairs each unit with its opposite.
# - *PS-6.* The kernel of that form depends on the function only.
# - *PS-7.* GELU and SiLU have such groups as well, but no scaling.
# - *PS-8.* Removing symmetries does **not** make independently trained nets more alike.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.representation import random_layer, scramble, trained_digits
from porism.sims.representation.digits import digits_images
from porism.sims.representation.figures import FIGURES
from porism.theory.representation import (
    Layer,
    add_linear_null,
    canonicalise,
    cka_range,
    privileged_similarity,
    similarity,
    symbolic,
)

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## How far CKA can be pushed (PS-2)
#
# Scaling and duplication reach every kernel $\sum_j s_j h_j h_j^\top$ with $s > 0$. The cosine of two rays
# is the squared correlation of their units, and along a sum of kernels the cosine with a fixed one is never
# below the smaller of the two ends, because norms obey the triangle inequality (the slack below). So the
# infimum of CKA is the smallest squared correlation of two units: with many units it is close to **zero**.

# %%
display(*symbolic.rays())
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# ## Units that do nothing (PS-3)
#
# Add units with kernel $N$ and factor $t$, without outgoing weights: the function stays, and CKA falls along
# a law that needs three inner products. With $u = t^2 |N| / |K|$ and $r$ the CKA of $K$ and $N$ it tends to
# $r$, and its slope is never positive.

# %%
display(*symbolic.addition_law())
axes = FIGURES["F2"](SCALE, 0)

# %% [markdown]
# ## Three primitives are not all (PS-5)
#
# With $s$ the slope on the negative side, a unit and its opposite are an absolute value and a linear piece,
# $a\,\varphi(z) + b\,\varphi(-z) = p\,|z| + q\,z$. Where $b = -a$ the absolute value goes, and linear pieces
# of different directions can cancel: with $z_3 = z_1 + z_2$ six units add up to nothing. No two of them are
# parallel, so merging parallel units keeps all six.

# %%
display(*symbolic.opposite_units(), *symbolic.null_group())
net = random_layer(12, 5, 3, 0)
six = add_linear_null(net, np.eye(5)[:2], [1.0, 2.0, 3.0])
X = np.random.default_rng(1).normal(size=(200, 5))
print(f"outputs differ by {abs(net(X) - six(X)).max():.1e}")
print("units", net.units, "and", six.units)
print("lines, parallel units merged", [canonicalise(one, "parallel").lines for one in (net, six)])
print("lines, complete form        ", [canonicalise(one).lines for one in (net, six)])

# %% [markdown]
# ## The complete form (PS-5b, PS-6)
#
# Every layer of ReLU type is $f(x) = \sum_l c_l\,|u_l \cdot \tilde x| + L\,\tilde x$ with
# $\tilde x = (x, 1)$, unit vectors $u_l$ distinct up to sign and $c_l \neq 0$. Each absolute value has its
# kink on a hyperplane of its own, so they are independent modulo affine maps: two layers are equal on
# $\mathbb R^d$ **if and only if** these are equal. The kernel
# $\sum_l |c_l|^2\,|z_l||z_l|^\top + \tilde X L^\top L \tilde X^\top$ then depends on the function only.
#
# Each pair below is one function with two sets of parameters. On the right, where groups of six were added,
# only the complete form finds that they are equal.

# %%
axes = FIGURES["F1"](SCALE, 0)

# %% [markdown]
# ## Which measure is fooled by what (PS-4)
#
# All cells compare a function with itself, so 1 is the right answer. CCA depends on column spans: it does
# not see scaling, duplication and additions on one side, and is fooled by additions on both.

# %%
axes = FIGURES["F4"](SCALE, 0)

# %% [markdown]
# ## Other activations (PS-7)
#
# GELU and SiLU satisfy $\varphi(z) - \varphi(-z) = z$, so groups of six are symmetries there too. Scaling is
# not, and whether anything else is has not been shown: `canonicalise` refuses these activations.

# %%
display(*symbolic.linear_pieces())

# %% [markdown]
# ## Trained nets (PS-8)
#
# Nets with 64 units on scikit-learn's digits. Trained from different seeds they are alike by both measures:
# training does not leave the noise of symmetries that a scrambled copy has, and removing symmetries does not
# make different solutions more alike. In the middle one net meets copies of itself: privileged CKA is 1.
# On the right the hidden units stay and the outgoing weights are shuffled: CKA cannot see that the function
# is another one.

# %%
axes = FIGURES["F5"](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("representation"), SCALE)

# %% [markdown]
# ## Try it on your own models
#
# Put your own nets in place of these two: a `torch.nn.Sequential` of linear, ReLU, linear, a fitted
# scikit-learn MLP, or a `Layer` from arrays, and samples that both of them take.

# %%
mine = trained_digits(0).layer
theirs = scramble(trained_digits(1).layer, 0, ["duplicate", "scale"])
images = digits_images()[2]
assert isinstance(mine, Layer)

hidden = mine.hidden(images), theirs.hidden(images)
alive = hidden[1][:, np.ptp(hidden[1], axis=0) > 0]
lowest = cka_range(alive, hidden[0]).lower
print(f"CKA {similarity(*hidden):.3f}, and scaling of the second can take it to {lowest:.3f}")
print(f"privileged CKA {privileged_similarity(mine, theirs, images):.3f}")
form = canonicalise(theirs)
print(f"{theirs.units} units, {form.lines} lines, merged up to {form.merged_gap[0]:.1e} apart")
