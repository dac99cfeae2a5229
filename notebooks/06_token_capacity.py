# %% [markdown]
# # Token capacity, and fine-tuning through a subset of positions
#
# A linear map $W$ that all positions of a sequence share has the gradient $\sum_t g_t x_t^\top$: inputs
# $x_t$, gradients $g_t$ at its outputs. What does one position add to it, how many are needed, and what
# is saved, and lost, by training on a few?
#
# **What is claimed.** A position's capacity is bounded by the ranks of its inputs and gradients, positions
# are interchangeable, later ones dominate under causal attention, and a tenth of the positions is enough to
# match full fine-tuning with less memory. Only the abstract was public: every definition here is a
# **reconstruction**. What holds, and what does not:
#
# - *TC-2.* One bound on the rank holds, and its two simpler forms are **false**. That rank does not grow
#   with the model is a property of the data, **no law**.
# - *TC-3, TC-4.* Interchange has a bound. Inputs alone **cannot** certify it; that any subset will do is
#   **false** for bidirectional models too.
# - *TC-5.* The number of visible prefixes grows along a causal sequence and caps the rank. That later
#   positions strictly dominate is **false**, in several ways.
# - *TC-6.* Forward passes give a number of positions that is necessary. It **promises no accuracy**.
# - *TC-8.* For the last positions of a causal model the gradient at these positions is the true one. Keys
#   and values lose the prefix: **this is the price**.
# - *TC-9.* The graph keeps far less than that of full fine-tuning. **Gradient checkpointing may keep less**.
# - *TC-10.* That few positions match full fine-tuning was **not reproduced**.

# %%
import os

import torch
import transformers
from IPython.display import display

from porism import claims, sims
from porism.sims.corpora import topics_bpe
from porism.sims.token_capacity import SubsetBackprop, measure_saved_bytes
from porism.sims.token_capacity.figures import FIGURES
from porism.theory.token_capacity import choose_positions, symbolic

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## The kernel of one position (TC-1, TC-2)
#
# The inner product of two weight gradients is a product, so the kernel of position t is
# $K_t = (X_t X_t^\top) \circ (G_t G_t^\top)$. Training uses the kernel of the *sum* over positions, and
# $|S| \sum_t K_t$ exceeds it by squares (second line, one direction, three positions). Its rank may fall
# when a position is added.
#
# The third line is the participation ratio on one set of rows: $4m/(m+1) < 4$ for each factor, $2m$ for
# the product. Left, that and a second counterexample; right, random kernels. Only the entropy rank **with
# weights** is a bound.

#
# **Does it grow with the width?** (Below.) For independent entries the participation ratio follows the
# last law, until N. For random features of data with four dimensions both ranks level off. So measure it
# for your model and data.

# %%
display(symbolic.hadamard_identity(), symbolic.tied_gap(), *symbolic.participation_counterexample())
display(symbolic.width_law())
for name in ("F2", "F1"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# ## Are positions interchangeable? (TC-3, TC-4)
#
# The best multiple of one Gram matrix leaves $1 - \rho^2$ of another one's squared norm, with the
# *uncentred* alignment ρ. Two such terms, for inputs and gradients, bound the error (left). Middle:
# inputs agree perfectly and kernels do not, so a number from forward passes certifies half of the bound at
# best. Right: centred alignment does not notice a shift that changes the kernel.

# %%
equation = symbolic.interchange_residual()
display(equation)
assert (equation.lhs - equation.rhs).expand() == 0
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# ## Do later positions dominate? (TC-5)
#
# What holds is the ceiling: states at t are a function of the visible prefix, and prefixes are refined
# along the sequence. Counterexamples to strict dominance: (i) rank 1 at a constant token, (ii) equal
# averages, whose uncentred rank falls to 1, (iii) a model narrower than the number of rows, where later
# ranges do not contain earlier ones. A fourth is the next figure: with a loss at **all** positions the
# energy of a position's kernel **falls** by orders of magnitude along the sequence; with a loss at the last
# one there is no order.

# %%
for name in ("F4", "F5"):
    FIGURES[name](SCALE, 0)

# %% [markdown]
# ## How many positions? (TC-6)
#
# Gradients made from positions S lie in the range of $F_S = \sum_{t \in S} x x^\top$. Coverage is the
# share of the inputs' energy there, with a ridge; it never falls, since a direction's part grows with its
# energy (below). k* is the smallest number that loses at most a tenth. It comes from forward passes alone,
# and the order hardly matters to it. It does not see gradients, so it is necessary and **no guarantee**:
# keep the dashed line in mind for the figure after the next.

# %%
display(symbolic.ridge_increment())
axes = FIGURES["F6"](SCALE, 0)

# %% [markdown]
# ## The price: what the gradient loses (TC-7, TC-8)
#
# `SubsetBackprop` records the frozen positions without a gradient and replays the others. Left, a causal
# model, last positions: query, output and MLP of the last layer have the **full** gradient, exactly. Keys
# and values lose the part of the prefix, which is most of it for small k, and earlier layers lose
# what comes through it. Right, a bidirectional model: every subset is a truncation, mild while attention
# hardly mixes (the size of weights at a usual start), severe when it does.

# %%
axes = FIGURES["F9"](SCALE, 0)

# %% [markdown]
# ## Does it match full fine-tuning? (TC-10)
#
# Digits as 16 patches and a readout; a transformer of two layers, pretrained without labels, then
# fine-tuned through k positions. Five seeds, paired; bars are standard errors, dots are seeds. Under each
# panel the gap of the best subset, which favours subsets since it is chosen after the fact.
#
# **"Matches or exceeds full fine-tuning" is not reproduced.** With at most 4 of 17 positions accuracy is
# below full fine-tuning in every panel. Ten times longer pretraining narrows the gap, and does not close
# it. With 8 of 17, half of the sequence, the gap is within about two standard errors: a draw in the causal
# model, not decided in the other. More positions are **not** always better (k = 2 against k = 1), random
# patches mostly do better than the last ones, seeds differ, and k* does not tell where a subset is good
# enough. All subsets are far above the classifier alone; without the readout nothing is learned.

# %%
axes = FIGURES["F7"](SCALE, 0)

# %% [markdown]
# ## The saving, and when gradient checkpointing is better (TC-9)
#
# Bytes that the graph keeps for one row, four layers of width 256, a head on the last k tokens. Not
# peaks of a device: weights, optimiser states and temporaries come on top, and checkpointing recomputes a
# layer, which these numbers leave out. The same two passes with the attention of TokenTune's code, and
# with joined keys in torch's own attention, are there for comparison.
#
# **Prefer gradient checkpointing** with plain multi-head attention, where it keeps less at every k; beyond
# the star with grouped heads; for bidirectional models that mix strongly; and wherever the full gradient
# matters, since its gradient *is* the full one. **Prefer a subset** with few key heads and k well below the
# star, or where time counts: it runs the backward pass on k positions, and recomputes nothing.

# %%
axes = FIGURES["F8"](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("token_capacity"), SCALE)

# %% [markdown]
# ## Try it on your own model
#
# Three lines around an ordinary loop. Put your own model and batches in place of these: any causal or
# bidirectional model of transformers whose attention goes through its registry, with or without LoRA. The
# first batch is verified against the plain forward pass; models that are not supported are refused.

# %%
corpus = topics_bpe(512)
rows = torch.from_numpy(corpus.ids[: 64 * 64].reshape(64, 64).astype("int64"))
batches = [{"input_ids": part} for part in rows.split(16)]

torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=1, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
model = transformers.LlamaForCausalLM(config)

choice = choose_positions(model, batches, eps=0.1)
k = choice.k
print(f"k* = {k} of {rows.shape[1]} positions, for {choice.layer}")
print(*choice.warnings, sep="\n")

step = SubsetBackprop(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for i in range(40):
    ids = batches[i % 4]["input_ids"]
    labels = ids.clone()
    labels[:, : 1 - k] = -100  # position j - 1 predicts label j, and must be selected
    loss = step.loss(labels, k, input_ids=ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i in (0, 39):
        print(f"step {i}: loss {loss.item():.3f}")

ours = measure_saved_bytes(lambda: step.loss(labels, k, input_ids=ids), model)
full = measure_saved_bytes(lambda: model(input_ids=ids, labels=labels).loss, model)
print(f"kept for the backward pass: {ours / 2**20:.2f} MiB, all positions {full / 2**20:.2f} MiB")
