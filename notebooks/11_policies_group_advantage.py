# %% [markdown]
# # Group advantages
#
# Sample $G$ answers to a prompt, call $k$ of them right, and weigh each by its z-score in the group: that is
# the update of GRPO and its relatives. Many rules replace the z-score. **What can a rule change?**
#
# **What is claimed** (after the abstract and the released routine of A-GRAE; **reconstruction**):
#
# - *Identities* (AG-1, 2, 4, 5, 8, 9): for binary rewards and any rule the expected update is
#   $s(p)\,\nabla p$. The direction cannot be changed, only a scalar; it is computed exactly here, and so is
#   the utility $F$, $F' = s$, that is climbed.
# - *Refuted* (AG-3, AG-6, AG-7, AG-5b): that unsampled answers keep their probability; that suppressing
#   positives buys diversity that smaller steps do not; that unsampled *tokens* keep their logits; that the
#   law holds for every average over tokens.
# - *Toy reproduction* (AG-6): bandits of 40 arms. No language model is trained, no benchmark is repeated.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.policies import invariant_table, run_bandit
from porism.sims.policies.figures import FIGURES
from porism.theory.policies import direction_scale, group_advantages, symbolic

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## One direction (AG-5)
#
# Given that one sample is right, the other rewards of its group do not depend on which right answer it is:
# the weight is a constant $c^+$, and $\mathbb{E}[\nabla\log\pi;\ \text{right}] = \nabla p$. So
# $\mathbb{E}\,g = \mathbb{E}[c^+ - c^-]\,\nabla p$. For three samples the z-score's $s$ is constant. Scaling
# positives by $1 - \lambda$ multiplies $s$ by $1 - \lambda(1 - p)$, as positive and negative mass are equal.

# %%
display(*symbolic.direction_law(3), *symbolic.suppressed_direction())

# %% [markdown]
# ## Other lengths, other utilities (AG-4, AG-8, AG-9)
#
# What a rule does choose is how much a prompt counts. As $G \to \infty$, each utility below differentiates to
# its rule's $s$. Note the scale of the *easy* focus as released: its divisor $1 - \sqrt{\hat p}$ makes the
# mass grow like $2\sqrt G$; with $\sqrt{1 - \hat p}$ it would stay below one.

# %%
display(*symbolic.utilities().values())
axes = FIGURES["F5"](SCALE, 0)

# %% [markdown]
# ## What is not sampled (AG-2, AG-3)
#
# Advantages that sum to zero leave unsampled logits alone, and yet every unsampled action changes its
# *probability*, all by one factor: up where the wrong samples were likelier than the right ones, down
# elsewhere.

# %%
display(*symbolic.drift())
axes = FIGURES["F7"](SCALE, 0)

# %% [markdown]
# ## Diversity, and the step size (AG-6)
#
# By step number, suppressing positives seems to keep more right arms alive (right). By progress there is one
# curve for every $\lambda$, that of the expected flow (left): the suppressed rule had simply come less far.
# Larger steps lose a little more, through noise.

# %%
axes = FIGURES["F6"](SCALE, 0)

# %% [markdown]
# ## Token by token (AG-7, AG-5b)
#
# At the first position, which all samples share, a mean within each sequence moves unsampled tokens unless
# lengths are equal; a token mean or a plain sum does not. After samples have parted, unsampled tokens move
# under all three. Only the plain sum keeps the direction law. The table lists what each rule keeps.

# %%
axes = FIGURES["F8"](SCALE, 0)
print(invariant_table(rng=0, trials=1 if SCALE == "smoke" else 3).summary())

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run([claim for claim in sims.ledger("policies") if claim.id.startswith("AG")], SCALE)

# %% [markdown]
# ## Try it on your own rule
#
# A rule on binary rewards is two tables: the weight of a right and of a wrong sample by the number of right
# ones. Put yours in place of this one, which drops groups with fewer than two right samples.

# %%
G = 8
plus, minus = np.zeros(G + 1), np.zeros(G + 1)
for k in range(2, G):
    A = group_advantages([[1] * k + [0] * (G - k)])[0]
    plus[k], minus[k] = A[0], A[-1]
p = np.array([0.02, 0.1, 0.3, 0.5, 0.9])
print("s(p), z-score:", direction_scale(p, G).round(3))
print("s(p), yours  :", direction_scale(p, G, (plus, minus)).round(3))
run = run_bandit(40, range(6), "hard", lr=0.05, steps=2000, group_size=G, n_runs=16, rng=0)
print("effective right arms at P = .5 and .9:", np.nanmean(run.at_level([0.5, 0.9]), axis=1).round(2))
