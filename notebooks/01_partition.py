# %% [markdown]
# # Certify a partition
#
# Semivalues (Shapley, Banzhaf and their relatives) rank players: training points, features, models. A
# decision follows, such as *keep the best 9 points*. It depends on the scale of the score: accuracy, its
# logarithm and its square order coalitions alike, but can rank players differently.
#
# **What is claimed.** The decision survives *every* strictly increasing change of the score if and only if it
# holds in each *level game*, in which a coalition counts 1 if it reaches a level and 0 otherwise. Checking
# that takes one sweep over the table, in integers. Where the decision does not survive, one level game names
# the change that breaks it, and the slope radius κ* tells how uneven a change must be to do harm. Where only
# a sample of coalitions is known, the verdict is robust, not robust, or undecided.
#
# Of the paper on partition robustness only the abstract was public. The definitions here are a
# **reconstruction**; the ledger below says for each claim where it comes from, and what happens when one of
# its hypotheses is dropped.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.partition import utility_table
from porism.sims.partition.figures import FIGURES
from porism.sims.style import style
from porism.theory.partition import Semivalue, TopK, UtilityTable, certify_partition, symbolic

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## A certificate in four lines
#
# Three players, eight scores; player *i* is bit *i* of the position. The top player is not robust: the
# witness is an increasing change of the score that puts player 1 ahead of player 0, and anyone can recompute
# it.

# %%
table = UtilityTable.from_array([0, 5, 0, 7, 0, 7, 10, 12])
certificate = certify_partition(table, Semivalue.shapley(), TopK(1))
certificate.verify(table)  # recomputed by another route; raises if anything differs
certificate

# %%
after, pair, gap = certificate.witness.check(table, Semivalue.shapley())
print("values before:", np.round(certificate.semivalues, 3), " after:", np.round(after, 3), " swapped:", pair)

# %% [markdown]
# ## Derivations
#
# Comparing two players takes only the pair weights $q_s = p_{s-1} + p_s$: every other term cancels. By
# Pascal's rule their masses sum to one, so that a level game compares two probabilities. The weights of the
# Shapley value and of Beta Shapley have closed forms.

# %%
display(symbolic.pair_identity(3), symbolic.pascal_rule(), symbolic.pair_mass(4))
display(*symbolic.shapley_pair_weights(), *symbolic.beta_weights(4))

# %% [markdown]
# A change $\varphi$ of the score is a positive mixture of level games (Abel summation), and so is the
# difference of two players, in which $D_l = m_l + \dots + m_L$. With slopes between 1 and $\kappa$ the worst
# case is $d - (\kappa - 1) M$, where $d$ is the difference in the table and $-M$ the part of it from levels
# with $D_l < 0$; its root is the slope radius. A jump at such a level reverses the pair by $D/2$. Under the
# law of sizes $r(s)$, with the harmonic number $H$, all sampled coalitions weigh the same.

# %%
display(symbolic.abel_summation(2), symbolic.level_games(2))
display(symbolic.slope_radius(), symbolic.witness_gap(), *symbolic.size_law())

# %% [markdown]
# ## Figures
#
# First a witness and the level games behind it; then how often selections are robust, on games and on real
# data.

# %%
for name in ("F3", "F4"):
    FIGURES[name](SCALE, 0)

# %%
for name in ("F1", "F8"):
    FIGURES[name](SCALE, 0)

# %%
for name in ("F2", "F6"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# What is not known costs. Small coalitions may be unscored or meaningless, and a sample leaves a band around
# every level game: with thousands of players expect *undecided*, and certify the estimated partition instead
# (`target="estimate"`).

# %%
for name in ("F7", "F5"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("partition"), SCALE)

# %% [markdown]
# ## Try it on your own data
#
# Any model with `fit` and `score` will do. Here eight groups of training points are the players; the labels
# of two groups are shuffled. Put your own `X` and `y` in place of these; `checkpoint=` keeps what was
# evaluated, `n_jobs=` uses more cores.

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_breast_cancer(return_X_y=True)
X, X_val, y, y_val = train_test_split(X, y, train_size=80, random_state=0, stratify=y)
bad = np.flatnonzero(np.arange(len(y)) % 8 >= 6)  # rows of players 6 and 7
y[bad] = np.random.default_rng(0).permutation(y[bad])

model = make_pipeline(StandardScaler(), LogisticRegression())
mine = utility_table(model, X, y, X_val, y_val, players=8)
answer = certify_partition(mine, Semivalue.banzhaf(), TopK(6))
answer

# %%
with style():
    answer.plot()
