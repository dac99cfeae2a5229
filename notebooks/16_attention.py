# %% [markdown]
# # Virtual heads
#
# Attention with few query heads projects P of them for each key head, and mixes them to G **virtual** ones,
# $q'_i = \sum_j M_{ij} q_j$; outputs are mixed across heads by $I + AB^\top$ before the output projection.
# What of this can be hidden in the weights, what does it cost, and are the heads of a real model virtual?
#
# **What this is.** Folding, the guard for rotary positions and ranks (VH-1 to VH-3, VH-7) are
# **identities**, exact to rounding. The operations of VH-5 are a **cost model**, by counting. Rounding
# (VH-6) is a simulation, and MiniLM's heads (VH-7d) are one real model. No paper was available: everything
# is a **reconstruction**, and no benchmark of a paper is reproduced. **VH-8, which would train small
# language models of equal cache, was planned and not run**: nothing here says that virtual heads help.
#
# Popular wordings that fail:
#
# - *VH-2d.* "Only whole heads can be mixed with rotary positions." More can: a complex number a frequency.
# - *VH-4, VH-4b.* "Mixes fold." Not past a norm of the queries, nor with a norm or gate between mix and
#   weights.
# - *VH-5b.* "Folding is free." It multiplies the query projection by up to G/P.
# - *VH-6b.* "Folded weights are more accurate in bfloat16." Not if the weights were rounded before.

# %%
import os

import numpy as np
from IPython.display import display

from porism import claims, sims
from porism.sims.attention import minilm_queries, random_mix, sample_layer
from porism.sims.attention.figures import FIGURES
from porism.theory.attention import (
    AttentionConfig,
    RopeLayout,
    cost_model,
    factor_virtual,
    fold_into,
    fold_query_mix,
    rope_commutant_residual,
    symbolic,
    virtual_rank,
)

SCALE = os.environ.get("PORISM_SCALE", "paper")

# %% [markdown]
# ## Folding (VH-1)
#
# Matrix products associate: $W_Q' = (M \otimes I)\,W_Q$, the same for the **bias**, and for outputs
# $W_O' = W_O\,((I + AB^\top) \otimes I)$. A folded layer is plain grouped attention with G heads a group, the
# same keys, values and cache. Forgetting the bias is the usual mistake, and the control of this claim.

# %%
W = np.array([[[[1, 2], [0, 1]], [[3, -1], [2, 0]]]])  # one group, two heads of width 2, inputs of width 2
print(fold_query_mix(W, [[[1, 0], [0.5, 1], [-1, 2]]]).weight)

# %% [markdown]
# ## Rotary positions (VH-2)
#
# A mix that acts *before* the rotation always folds. One that acts *after* it folds only if it commutes
# with $R_t$ for every t. Between two frequencies the equation $R_1 N = N R_2$ has only the solution 0,
# unless they coincide up to sign and full turns; on one frequency it leaves a complex number (the
# first three lines).
#
# The mean of $R_t^\top N R_t$ over all positions is the nearest mix that commutes, so that the distance
# from it **is** the error, up to $\sqrt 2$: on one pair, and between two pairs, the last two lines, and the
# figure on the left. Right: which dimensions form a pair is part of the question. Llama pairs (i, i + r/2),
# GPT-J (2i, 2i + 1); weights do not tell, so the layout is passed and never guessed.

# %%
display(symbolic.across_frequencies()[0], *symbolic.on_one_frequency(), *symbolic.guard())
axes = FIGURES["F1"](SCALE, 0)

# %%
mix = random_mix(1, 3, 2, head_dim=8, kind="any", rng=0)
for kind in ("half", "interleaved"):
    layout = RopeLayout.standard(kind, 8)
    print(f"pairs {kind}: distance {rope_commutant_residual(mix, layout):.2f}")
try:
    fold_query_mix(sample_layer(16, 1, 2, 8, rng=0).W_q, mix, rope=layout, applied="after")
except ValueError as error:
    print(error)

# %% [markdown]
# ## What it costs (VH-3, VH-5)
#
# The cache is $2\,n_{kv}\,d_h$ numbers a token, whatever is folded. The query projection costs
# $2\,n_{kv}\,d_h\,P(D+G)$ operations with the mix kept, and $2\,n_{kv}\,d_h\,G D$ folded. So folding pays
# if there are nearly as many physical heads as virtual ones.
#
# A folded layer has rank at most P as heads, and $P d_h$ as rows of the projection (VH-3). It is a plain
# layer **with a constraint**: it can represent nothing that plain attention of G heads and the same cache
# cannot. If it trains better, that is optimisation.

# %%
display(*symbolic.pays())
for folded in (False, True):
    print("folded" if folded else "kept  ", cost_model(AttentionConfig(1024, 4, 4, 8, 64, folded)))
axes = FIGURES["F2"](SCALE, 0)

# %% [markdown]
# ## Rounding (VH-6)
#
# Rounding once costs the mean square below, with $u = 2^{-8}$ in bfloat16. Folded first, weights, inputs
# and result are rounded: three times. With the mix kept, mix and intermediate result add two. Orange: if
# the weights come in bfloat16, and their exact product is the truth, it is two against two. So fold
# **before** rounding; folding what is rounded gains nothing.

# %%
display(symbolic.rounding())
axes = FIGURES["F4"](SCALE, 0)

# %% [markdown]
# ## Are real heads virtual? (VH-7)
#
# The question backwards: G heads come from P by a mix if and only if their matrix of rows has rank P, and
# the singular values say what fewer would lose. MiniLM's heads are far from it: nine of twelve leave 40 to
# 46 %.
#
# **A caveat.** Within a group that shares its key, turning all queries by one map and the key by its
# inverse changes neither scores nor rank (VH-7c). In MiniLM every head has a key of its own, each could be
# turned by a map of its own, and the numbers describe weights, no function.

# %%
axes = FIGURES["F3"](SCALE, 0)

# %% [markdown]
# ## The ledger
#
# Each claim is checked, and so is a control in which one hypothesis is broken: there the check must fail.

# %%
claims.run(sims.ledger("attention"), SCALE)

# %% [markdown]
# ## Try it on your own model
#
# Put your own Llama-type model and mixes in place of these. `fold_into` gives a copy of the attention
# module that runs as it is, in any attention implementation; what it cannot fold exactly, it refuses.

# %%
import torch
import transformers

torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=8, num_key_value_heads=2, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
model = transformers.LlamaForCausalLM(config).eval()
ids = torch.arange(24)[None] % 96
with torch.no_grad():
    before = model(ids).logits

M = np.eye(4) + 0.1 * random_mix(2, 4, 4, rng=0)  # 2 groups, 4 heads each, as trained beside the model
N = np.eye(8) + 0.1 * np.outer(*np.random.default_rng(1).standard_normal((2, 8)))
for layer in model.model.layers:
    layer.self_attn = fold_into(layer.self_attn, query_mix=M, output_mix=N)
with torch.no_grad():
    print("the mixes change logits by", f"{(model(ids).logits - before).abs().max():.3f}")

for layer in model.model.layers:  # and back, by the inverse mixes
    layer.self_attn = fold_into(layer.self_attn, np.linalg.inv(M), np.linalg.inv(N))
with torch.no_grad():
    print("and their inverses bring them back to", f"{(model(ids).logits - before).abs().max():.0e}")

heads = model.model.layers[0].self_attn.q_proj.weight.detach().double().numpy().reshape(2, 4, 8, 64)
print("virtual rank of each group:", virtual_rank(heads, rtol=1e-5).rank)
for name, layout in (("heads", None), ("complex numbers a frequency", RopeLayout.standard("half", 8))):
    print(f"two heads of four, mixed by {name}: error", factor_virtual(heads, 2, layout)[2].round(3))
assert (virtual_rank(minilm_queries()).rank == 12).all()
