# %% [markdown]
# # Skill and delegation
#
# A person with **skill** $s$ hands a share $d$ of the work to an AI of **quality** $q$. Own work builds
# skill, delegated work lets it fade, $\dot s = a(1-d)(1-s) - b\,d\,s$, and trust follows what pays:
#
# - law A: $\dot d = k\,d(1-d)(q-s)$, where who delegates nothing, or everything, goes on doing so;
# - law B: $\dot d = k\,(\sigma(\gamma(q-s)) - d)$, where trust relaxes to a logistic curve.
#
# Performance is $P = (1-d)s + dq$. Where does this end, who loses skill for good, and when does the AI
# stop paying?
#
# **What is shown.** SD-1 to SD-9b are **identities and theorems** of this system of equations: exact up
# to rounding. SD-10 and SD-11 are **toy reproductions**: trends in small worlds. Three popular wordings
# are *refuted* by a counterexample: that faster trust always traps more people (SD-6), that there are
# always two attractors (SD-8), that the AI's advantage changes sign once (SD-9).
#
# The source is arXiv 2603.02950, of which only a summary was at hand. The equations are a
# **reconstruction**, and none of its experiments is reproduced.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.dynamics.figures import FIGURES
from porism.sims.style import style
from porism.theory.dynamics import DelegationModel, PhasePlane, symbolic

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## One person
#
# The border of the two basins is traced backward from the saddle, so that one number decides, and the
# area of the basin comes with it.

# %%
model = DelegationModel(learn=1, forget=0.6, speed=1, quality=0.7)
border = model.separatrix()
for s, d in ((0.45, 0.5), (0.3, 0.2)):
    end, stop = model.verdict(s, d), model.crossing_time(s, d)
    print(
        f"skill {s}, delegation {d}: ends {end}; border at {border(s):.6f}; the AI pays until t = {stop:.6f}"
    )
print(f"share of starts that lose their skill: {model.low_skill_area():.8f}")
for point in model.equilibria():
    print(point.kind, point.point.round(6), "eigenvalues", point.eigenvalues.round(6))

# %% [markdown]
# ## Derivations
#
# With fixed delegation skill relaxes to $s^*$. Linear parts of law A at its three points of rest: two nodes,
# and a saddle where the determinant is negative. No cycles: the weighted divergence is negative (Dulac).
# More delegation lowers the growth of skill, more skill that of delegation: in $(s, -d)$ the flow keeps
# order (Kamke), so that the border is an increasing curve; delegation grows with $q$, so that the basin does
# too. The last two lines: law A looks the same from the other corner.

# %%
display(*symbolic.fixed_delegation(), *symbolic.nodes_and_saddle(), *symbolic.divergence())
display(*symbolic.monotone(), *symbolic.symmetry())

# %% [markdown]
# The area $A$ for very slow and very fast trust. Points of rest of law B, where they fold, and a determinant
# that changes sign there whatever $k$ is. Last, the sum of two terms that are negative once the person alone
# would have passed the AI.

# %%
display(*symbolic.slow_trust(), *symbolic.folds(), *symbolic.crossing_bound())

# %% [markdown]
# ## Figures
#
# Above the border skill is lost. A better AI moves the border down.

# %%
axes = FIGURES["F1"](SCALE, 0)

# %% [markdown]
# The basin grows with quality, but each person in it loses only $1 - q$: the product is largest for an AI
# of intermediate quality. Under law B the basin jumps where an attractor appears or vanishes. Below, the
# speed of trust: at $q = 0.7$ the basin is largest near $k = 20$.

# %%
for name in ("F2", "F3"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# Under law B two attractors exist only for steep trust, $\gamma > 4$, and a window of qualities. At its ends
# one of them vanishes, and everyone moves to the other. Below, on the left, the dots are the times from which
# the AI is a loss for good, in both basins. On the right a slow learner who forgets fast: a first gain turns
# to a loss, then delegation takes over and it is a gain again, until the person alone would have passed
# the AI.

# %%
for name in ("F4", "F5"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("dynamics"), SCALE)

# %% [markdown]
# ## Try it on your own system
#
# `PhasePlane` takes any two equations: here two species that compete. It finds what is at rest, traces
# the separatrix of a saddle, measures the basins, and draws. `f` works elementwise on arrays; a Jacobian
# is optional.


# %%
def f(x, y):
    return x * (3 - x - 2 * y), y * (2 - x - y)


plane = PhasePlane(f, box=((0, 4), (0, 3)))
for point in plane.equilibria():
    print(f"{point.kind:14}", point.point.round(6), "eigenvalues", np.round(point.eigenvalues, 6))
(saddle,) = [point for point in plane.equilibria() if point.kind == "saddle"]
print(f"area from which the first species wins: {plane.basin_area(saddle):.6f} of 12")
print(f"Dulac's divergence with weight 1/xy, at most: {plane.dulac(lambda x, y: 1 / (x * y)):.3f}")

with style():
    ax = plane.plot()
    ax.set_title("two species that compete")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
