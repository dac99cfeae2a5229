"""One autograd function for the CPU and the Triton path: what is kept, and which gradients are made."""

from typing import Any

from porism.checks import require

__all__ = ["Attend", "apply"]

require("torch", "torch")  # so that a missing package names the extra

import torch  # noqa: E402


class Attend(torch.autograd.Function):
    """Attention by ``path.forward`` and ``path.backward``; frozen keys and values are constants."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, k_frozen: Any, v_frozen: Any,
                places: Any, rule: Any, path: Any) -> Any:  # fmt: skip
        """Output; what the backward pass reads is kept by reference."""
        with torch.autocast(q.device.type, enabled=False):  # products keep the precision of their factors
            out, lse = path.forward(q, k, v, k_frozen, v_frozen, places, rule)
        ctx.save_for_backward(q, k, v, k_frozen, v_frozen, out, lse, *places)
        ctx.rule, ctx.path = rule, path
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Gradients of q, k and v where they are wanted."""
        if torch.is_grad_enabled():  # create_graph=True: what it asked for would be missing without a word
            raise NotImplementedError(
                "subset_attention is differentiable once, got create_graph=True; take backend='reference'"
            )
        q, k, v, k_frozen, v_frozen, out, lse, *places = ctx.saved_tensors
        wants = ctx.needs_input_grad[0], ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        with torch.autocast(q.device.type, enabled=False):
            made = ctx.path.backward(grad, q, k, v, k_frozen, v_frozen, out, lse, places, ctx.rule, wants)
        return *made, None, None, None, None, None


apply: Any = Attend.apply
