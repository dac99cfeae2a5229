# %% [markdown]
# # Pandora routing
#
# Many specialists can answer a query, and nobody knows which one is best. A cheap estimate says a little, a
# better one costs something: a longer prompt, a second model, a person's minute. **When is a better estimate
# worth its price, and for which specialist?** It is Pandora's problem with closed boxes that may be taken.
#
# Cheap mean $m_i$; refining costs $c_i$ and moves it to $M_i \sim N(m_i, \nu_i^2)$. With $b$ the best other
# mean, refining $i$ and then stopping is worth $\Delta_i = \nu_i\,\psi(|m_i - b|/\nu_i) - c_i$, where
# $\psi(z) = E(Z - z)^+$.
#
# **What is claimed.** Refining only where $\Delta_i > 0$ is nearly as good as refining everybody, at a
# fraction of the cost; and specialists that reason so about the queries they bid for help everyone. Only the
# abstract was public: the definitions are a **reconstruction**. What holds, and what does not:
#
# - *PB-8.* One step is never worse than no step, and never refines where the optimum stops. It may still lose
#   **all** of the gain.
# - *PB-17.* With estimates of independent specialists refining pays. With calibrated but dependent ones
#   refining everybody **may harm**.
# - *PB-18.* Most of the gain comes with a third of the refinements **if dependence is known**; otherwise it
#   takes more of them, or there is no gain to keep.
# - *PB-22.* Welfare rises where competing estimates are exact or prices shrunk. At noisy raw prices the
#   bidder gains and **everyone may lose**.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.pandora import classifier_matrix
from porism.sims.pandora.figures import FIGURES
from porism.theory.pandora import Router, compare_policies, fit_router, symbolic

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## One function, one index, one band
#
# $\psi$ falls with slope $-\bar\Phi$. The gain grows with $\nu$ and falls with the gap, and it depends on the
# size of the gap only, which is derived here by its two cases. So one refinement pays within a band around
# $m_i$. Its upper end is the reservation index $\sigma_i$ of Weitzman; below the lower end one takes the
# specialist unrefined.

# %%
display(symbolic.psi_slope()[0], *symbolic.voi_slopes(), *symbolic.band_symmetry())
axes = FIGURES["F1"](SCALE, 0)

# %% [markdown]
# ## The exact optimum, and what rules lose against it (PB-6 to PB-11)
#
# For independent specialists the optimum is a short dynamic program, and every rule is valued by the same
# recursion. First a trap: neither refinement pays alone, so one step stops, but the two together do. The rule
# `kg` (one step) loses the *whole* gain here. With two specialists one integral remains, so that looking two
# steps ahead is exact.
#
# On random instances (PB-9) one step loses under one percent on the mean, but several percent where
# specialists are alike. `rollout`, which compares with the best plan that commits, loses next to nothing.

# %%
trap = compare_policies([0.666, 1.524], [0.565, 0.648], [0.0828, 0.0306])
print({name: round(trap[name], 5) for name in ("cheap", "kg", "kg_sigma", "two_step", "rollout", "optimal")})
assert trap["kg"] == trap["cheap"] < trap["rollout"]
display(symbolic.two_specialists()[1])
axes = FIGURES["F2"](SCALE, 0)

# %% [markdown]
# ## Shared difficulty (PB-15)
#
# A hard query is hard for all. News about one specialist is then news about all of them, and says less about
# who is better: the formula for independent specialists overstates the value without bound. Rules that use it
# go on refining where there is nothing to gain.

# %%
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# ## Nearly as good for a fraction? (PB-18)
#
# Twelve classifiers, each at home with some classes; cheap estimates from three components, refined ones from
# all features, both out of fold. On digits the joint rule keeps the gain of refining all 12 with three
# refinements, and rules that take specialists as independent need about twice as many. With two classes there
# is little to gain, and no rule can be told from another: most points lie within the grey two standard
# errors.
#
# The benchmarks of this module do the same on a public matrix of nine language models: 97 ± 6 % of the gain
# at 3.2 of 9 refinements; for 93 % the same rule needs 2.9, and 6.3 a threshold on the margin that chooses
# among all.

# %%
axes = FIGURES["F4"](SCALE, 0)

# %% [markdown]
# ## Calibrated estimates that mislead (PB-17)
#
# Every estimate below is calibrated for its specialist: slopes are 1. Yet signals of unequal precision see
# the same difficulty. When it is bad news, the precise ones fall most, and the *largest* refined estimate is
# one that has heard little. Refining everybody and taking the largest is then **worse than not refining**,
# while it promises the most. A linear joint update mends it for Gaussian values; for right and wrong answers
# it only returns to the cheap rule. The report of `fit_router` compares promise and delivery for the
# specialist chosen, and flags `refine_harmful`.
#
# It happens on real data: on MMLU-Pro, with estimates from agreement with three small models, the benchmarks
# find .627 for cheap routing and .585 for refining all by calibrated estimates, which promise .700.

# %%
axes = FIGURES["F5"](SCALE, 0)

# %% [markdown]
# ## Does it help everyone? (PB-19 to PB-22)
#
# A specialist is offered queries at a price $p$, an estimate of what the competitor is worth. It refines if
# that pays, and takes the query if its mean is at least $p$. Welfare counts the competitor at its conditional
# mean $e$, and the difference is a wedge: zero for exact estimates, and harmful where those it wins were
# priced too low. For small $\nu$ and $c$ the allocation gets worse if and only if $|m - \mu|$ exceeds $D^*$.
# So the abstract's last sentence holds **in a regime**; posting the shrunk price $e$ makes it true for every
# noise.

# %%
display(symbolic.aligned_price(), *symbolic.wedge_law())
axes = FIGURES["F6"](SCALE, 0)

# %% [markdown]
# ## Keeping to a budget (PB-12)
#
# The optimum spends less as money gets dearer. One step need not: on the left its spend jumps *up* where it
# opens another specialist first. So `Router.set_budget` searches a grid, made monotone, and then steers.

# %%
axes = FIGURES["F7"](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("pandora"), SCALE)

# %% [markdown]
# ## Try it on your own data
#
# Put your own scores (queries × specialists) and features in place of these; `read_scores` of
# `porism.sims.pandora` reads a csv, an npz, or a RouterBench table. The report comes first: if it says
# `refine_harmful`, do not refine one by one. Costs are money here, and the budget is money a query.

# %%
mine = classifier_matrix("digits")
known, fresh = mine.rows(slice(0, 900)), mine.rows(slice(900, None))
fitted = fit_router(
    known.scores, features=known.features, cheap_features=known.cheap_features, names=known.models
)
print(fitted.report.summary())

router = Router(fitted, costs=0.02)
router.set_budget(0.05)
estimates = fitted.refined(fresh.features)  # stands for whatever is expensive
decisions = [router.route(x, q.__getitem__) for x, q in zip(fresh.cheap_features, estimates, strict=True)]
values = fresh.scores[np.arange(len(decisions)), [one.choice for one in decisions]]
print(decisions[0])
totals = router.counters()
print(f"spent {totals['spend_mean']:.4f} ± {totals['spend_se']:.4f} a query, right {values.mean():.3f}")
cheap = fresh.scores[np.arange(len(decisions)), fitted.cheap(fresh.cheap_features).argmax(1)]
print(f"without refining {cheap.mean():.3f}, refining all 12 costs 0.24 a query")
