# %% [markdown]
# # Tilted policies
#
# Fine-tuning with a reward $r$ and a KL penalty has a closed-form goal, the *tilt*
# $\pi_r \propto \pi_0\, e^{r/\beta}$ of the reference $\pi_0$. Given policies that were trained for some
# rewards, **what is the policy for a new one, and how well is that known?**
#
# **What is claimed** (after the abstract of PoEM; the definitions are a **reconstruction**):
#
# - *Identities* (PO-1 to PO-7): a gap in the objective is a KL; experts combine log-linearly with
#   coefficients of any sign and any sum *and the reference's own power*; $K + 1$ values of the new reward are
#   enough; errors are bounded by the oscillation of the residual.
# - *Refuted* (PO-8): mixing **next-token** logits with the same coefficients does not give the optimum over
#   sequences. The soft value does.
# - *Toy reproduction* (PO-9): how long training takes to get where the prediction is, on softmax policies
#   over a finite set. No language model is trained here.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.policies import tilt_world
from porism.sims.policies.figures import FIGURES
from porism.theory.policies import SoftmaxPolicy, TiltedExperts, symbolic, tilt

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## The gap is a divergence (PO-1)
#
# Put $r = \beta\log(\pi_r Z/\pi_0)$ into one outcome's share of
# $J(\pi) = \mathbb{E}_\pi r - \beta\,\mathrm{KL}(\pi\|\pi_0)$. Summed over outcomes the right side is
# $\beta\log Z - \beta\,\mathrm{KL}(\pi\|\pi_r)$: whoever knows the optimal value knows the distance.

# %%
display(*symbolic.gap_identity())

# %% [markdown]
# ## How many values of the reward? (PO-2, PO-3)
#
# $\log\pi_r - \log\pi_0 = \sum_k a_k(\log\pi_k - \log\pi_0) - \log Z$ is linear in $a$ and one constant. Once
# the sampled rows $[L_S, 1]$ have rank $K + 1$ the error falls to rounding. With a redundant expert the
# coefficients never become unique, but the prediction does, one sample earlier.

# %%
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# ## Do they share a reference? (PO-4)
#
# Rewards from a $q$-dimensional family give log-ratios of rank $q$. A longer spectrum says that policies were
# trained from other references, or not to the end; it takes no reward to see that.

# %%
axes = FIGURES["F2"](SCALE, 0)

# %% [markdown]
# ## Outside the span (PO-5, PO-6)
#
# If the residual of $r/\beta$ oscillates by $\Delta$, then $\mathrm{KL} \le \Delta^2/8$ and
# $\mathrm{TV} \le \tanh(\Delta/4)$. The eighth is a quarter, the largest variance of a variable with range
# one, under $\int_0^1 t\,dt$; the worst total variation is stationary in the weight of two outcomes. The best
# combination in $\mathrm{KL}(\pi\|\cdot)$ matches moments, and then divergences add.

# %%
display(*symbolic.bounded_tilt(), *symbolic.worst_variation(), *symbolic.bregman())

# %% [markdown]
# Predictions (points) lie under the certificate (dashed). Policy gradient on all rewards is no closer to the
# optimum until the reward is far outside the span, or it runs much longer.

# %%
axes = FIGURES["F1"](SCALE, 0)

# %% [markdown]
# ## Next-token logits (PO-8)
#
# Two binary tokens show it. The optimum's odds of the first token are a sum over continuations, the token mix
# makes them a product of sums: they agree to first order only. In random worlds the gap is a tenth of all
# probability. It vanishes where rewards add over positions *and* positions are independent.

# %%
display(*symbolic.token_law())
axes = FIGURES["F4"](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run([claim for claim in sims.ledger("policies") if claim.id.startswith("PO")], SCALE)

# %% [markdown]
# ## Try it on your own policies
#
# Put log-probabilities of your reference and experts over a set of candidate outputs in place of these, and a
# few values of a reward that nobody trained for. Here the experts' rewards explain it up to .05 everywhere;
# that assumption, and what 64 values can make of it in the worst case, is the certificate.

# %%
world = tilt_world(2000, 4, rng=0)
experts = TiltedExperts(world.log_ref, world.log_experts)
rng = np.random.default_rng(1)
reward = world.target + rng.uniform(-0.05, 0.05, 2000)  # known to you at 64 outcomes only
samples = rng.choice(2000, 64, replace=False)

fit = experts.fit(reward[samples], samples, beta=world.beta)
policy = fit.predict()
bound = fit.certificate(distance=0.05)
truth = SoftmaxPolicy(tilt(world.log_ref, reward, world.beta))
print(f"rank {fit.rank}, identifiable: {fit.identifiable}, coefficients {fit.coefficients.round(3)}")
kl = truth.kl(SoftmaxPolicy(policy))
print(f"KL {kl:.1e}, certified at most {bound.kl:.1e}; total variation at most {bound.tv:.3f}")
fit
