# %% [markdown]
# # Spectral gradient flow
#
# Muon, and other optimisers of its kind, replace a gradient $G$ by its **polar factor**: all its singular
# values become 1. What does that do to a product of two factors $W = BA$, as in LoRA, that is to meet a
# target $Y$ with singular values $\sigma_i$? The flow studied here is $\dot B = -T_\beta(\nabla_B L)$,
# $\dot A = -T_\beta(\nabla_A L)$ with $T_\beta(G) = G\,(G^\top G + \beta^2 I)^{-1/2}$ and
# $L = \frac12 \|Y - BA\|^2 + \frac\lambda2 (\|A\|^2 + \|B\|^2)$; the smoothing $\beta$ is small.
#
# **What is claimed.** Gradient flow learns one mode after the other, the largest first. Under the spectral
# flow all $\sqrt{s_i}$, roots of the singular values of $W$, grow at the same rate, and each stops at its
# own target: the smallest arrives first. From almost every start the flow ends at the best matrix of its
# rank, with a ridge at a soft-thresholded one. In LoRA training, spectra stay more even under Muon than
# under AdamW.
#
# The source is arXiv 2602.06385, of which only the abstract and notes by others were public: statements are
# a **reconstruction**. Brackets, order certificate, speed limit, the effect of cheap orthogonalisation and
# the formula for random starts are ours. The ledger below says for each claim where it comes from, and what
# happens when one of its hypotheses is dropped.

# %%
import os

import numpy as np
import torch
from IPython.display import display

from porism import claims, sims
from porism.kernels.polar import SpectralMuon
from porism.sims.corpora import markov
from porism.sims.spectral_flow import lora_init, random_target, simulate_descent
from porism.sims.spectral_flow.figures import FIGURES
from porism.sims.style import style
from porism.sims.tiny_transformer import TinyConfig, TinyTransformer
from porism.theory.lora_spectrum import LoraSpectrumRecorder, growth_uniformity, read_adapter_spectrum
from porism.theory.spectral_flow import certify_arrival_order, speed_limit, symbolic

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## The order, proved and run
#
# Brackets prove the order of arrival before anything is run, and a run may not break the speed limit: from
# $\|T_\beta\| \le 1$ no singular value of a factor grows faster than time. The last line asks for a
# smoothing that is too large.

# %%
certificate = certify_arrival_order([9, 4, 1], s0=1e-6, smoothing=1e-3)
Y, (B0, A0) = random_target(60, 70, [9, 4, 1], seed=0), lora_init(60, 70, 3, 1e-3, seed=0)
run = simulate_descent(Y, B0, A0, lr=0.01, steps=320)
print("proved:", certificate.smaller_first, " order:", certificate.exact_order, certificate.times.round(3))
print("run:   ", run.arrival_order, run.arrival_times.round(3))
assert (run.singular_values <= speed_limit(run.t, A0, B0) + 1e-9).all()
print("β = 0.1, targets 4, 1, 1/4:", certify_arrival_order([4, 1, 0.25], 1e-6, 0.1).exact_order)

# %% [markdown]
# ## Derivations
#
# A mode is a pair $(a, b)$ with $s = ab$. Without smoothing both factors move at unit speed: from sizes
# $x \ge y$ the level $c$ is reached at $t^*$, from below, with opposite signs, and from above. Gradient
# flow, by contrast, is logistic, and slow for small targets ($g = \sigma - \lambda$, as a ridge only shifts
# the target).

# %%
display(*symbolic.ideal_arrival(), *symbolic.gradient_flow(), symbolic.ridge_shift()[0])

# %% [markdown]
# Smoothing replaces the time $da$ of a piece by $\sqrt{1 + (\beta/x)^2}\,da$, where $x$ is the gradient.
# With $y = \beta/x$ and $G = \beta T_{GF}$, two expressions that are never negative give
# $\sqrt{T_0^2 + (\beta T_{GF})^2} \le T_\beta \le T_0 + \beta T_{GF}$. The delay sits at both ends of the
# way, where $x$ is linear, so that one integral serves both. The loss falls all the time. Descent in steps
# arrives at step $\lceil k^* \rceil$.

# %%
display(*symbolic.smoothed_arrival(), *symbolic.delay(), symbolic.descent(), symbolic.discrete_arrival()[0])

# %% [markdown]
# ## Figures
#
# Left, five modes on one line; right, the staircase of gradient flow, from the same random start. The dashed
# curves are formulas and not fits: on the right each mode starts at $R_{ii}^2/4$, with $A_0 V = QR$. Below,
# times of arrival: on a logarithmic scale the two flows have slopes of opposite sign. At the left end
# smoothing bends the curve up.

# %%
for name in ("F1", "F2"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# **Smaller first holds for small smoothing only.** The delay is largest for the smallest targets, and beyond
# the marked values of β two modes change places.

# %%
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# Where the flow ends. Left: a quarter of the starts is large and needs longer. Middle: a start from which
# the first mode is absent stays on a saddle, but $10^{-12}$ in one entry is enough to leave it. Below, the
# price of cheap orthogonalisation: five steps of the usual quintic, which are what Muon runs, do not map all
# singular values to 1, and the largest mode passes the second.

# %%
for name in ("F4", "F5"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# ## LoRA on a transformer
#
# A small transformer learns a new task through adapters of rank 8 on its twelve matrices. *Uniformity* is
# $U = (\sum g)^2 / (r \sum g^2)$ with the growth $g_i$ of $\sqrt{s_i}$. Step sizes are not tuned and losses
# are not equal: read the last panel too. This is a trend in one small world; the theory covers neither
# momentum nor networks.

# %%
axes = FIGURES["F6"](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("spectral_flow"), SCALE)

# %% [markdown]
# ## Try it on your own adapter
#
# Name the folder of a saved peft adapter, and its spectra are drawn; peft is not needed. Or record while you
# train: any model does whose modules hold `lora_A` and `lora_B`, a peft model too. Here it is a transformer
# with hand-made adapters; put your own model, data and optimiser in place of them.

# %%
FOLDER = None  # such as "runs/my_adapter"


class Adapter(torch.nn.Module):
    def __init__(self, m, n, rank=4):
        super().__init__()
        self.lora_A = torch.nn.Parameter(0.02 * torch.randn(rank, n, generator=draws))
        self.lora_B = torch.nn.Parameter(torch.zeros(m, rank))

    def forward(self, x):
        return x @ self.lora_A.T @ self.lora_B.T


if FOLDER:
    spectra = read_adapter_spectrum(FOLDER)
else:
    draws = torch.Generator().manual_seed(0)
    model = TinyTransformer(TinyConfig(vocab=32, max_len=64)).requires_grad_(False)
    for layer in model.named_linears().values():
        layer.adapter = Adapter(*layer.weight.shape)
    optimizer = SpectralMuon([p for p in model.parameters() if p.requires_grad], lr=0.01)
    batch, rng = markov(7, symbols=32).batches(16, 64), np.random.default_rng(0)
    with LoraSpectrumRecorder(model, every=10, optimizer=optimizer) as spectra:
        for _ in range(40):
            x, y = (torch.from_numpy(part) for part in batch(rng))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            optimizer.step()
    found = growth_uniformity(spectra, window=(0, 40))
    print(f"uniformity {found.mean:.3f}, 95 % interval {found.low:.3f} to {found.high:.3f}")

with style():
    spectra.plot()
display(spectra.to_frame().tail(4) if FOLDER else spectra.as_frame().tail(4))
