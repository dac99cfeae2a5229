"""The losses of a causal language model on sequences of token ids, as a world takes them."""

from typing import Any

from porism.checks import require


def next_token(model: Any, ids: Any, n: int) -> tuple[Any, Any, dict[str, Any], tuple[Any, Any]]:
    """Losses, validation loss, parameters and batch of n: mean cross-entropy of next tokens."""
    torch = require("torch", "torch")

    def loss(p: Any, batch: Any) -> Any:
        out = torch.func.functional_call(model, p, (batch[0],))
        each = torch.nn.functional.cross_entropy(out.transpose(1, 2), batch[1], reduction="none")
        return each.mean(1)

    held = ids[n:, :-1], ids[n:, 1:]
    params = {name: value.detach() for name, value in model.named_parameters()}
    return loss, lambda p: loss(p, held).mean(), params, (ids[:n, :-1], ids[:n, 1:])
