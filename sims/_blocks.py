"""Linear map and block of the tiny transformer, and the rotary positions."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from porism.sims.tiny_transformer import TinyConfig

__all__ = ["Block", "TinyLinear", "angles", "make_norm"]

EPS = 1e-5
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool], Tensor]


class TinyLinear(nn.Module):
    """A linear map without bias, ``y = x weight'``, with three slots that are empty at first.

    Parameters
    ----------
    weight : Tensor, shape (out, in)
        Initial weight.

    Attributes
    ----------
    rule : callable ``(x, weight) -> y``, or None
        Replaces the product; must return ``x @ weight.T`` and may send back what it likes (see `check_rule`).
    adapter : nn.Module or None
        ``y += adapter(x) * token_mask[..., None]``, without the factor where there is no mask.
    tap : callable ``(x, y) -> None``, or None
        Called last with input and output, to read them.

    Examples
    --------
    >>> import torch
    >>> layer = TinyLinear(torch.eye(2))
    >>> layer.adapter = torch.nn.Identity()
    >>> layer(torch.ones(1, 3, 2), torch.tensor([[1.0, 0.0, 0.5]])).detach()[0, :, 0].tolist()
    [2.0, 1.0, 1.5]
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.rule: Callable[[Tensor, Tensor], Tensor] | None = None
        self.adapter: nn.Module | None = None
        self.tap: Callable[[Tensor, Tensor], None] | None = None

    def forward(self, x: Tensor, token_mask: Tensor | None = None) -> Tensor:
        """Apply the map, then the adapter, then the tap.

        Parameters
        ----------
        x : Tensor, shape (..., in)
            Input.
        token_mask : Tensor, shape (...), optional
            Weight of the adapter at each token.

        Returns
        -------
        Tensor, shape (..., out)
            Output.
        """
        y = F.linear(x, self.weight) if self.rule is None else self.rule(x, self.weight)
        if self.adapter is not None:
            extra = self.adapter(x)
            y = y + (extra if token_mask is None else extra * token_mask[..., None])
        if self.tap is not None:
            self.tap(x, y)
        return y


class Block(nn.Module):
    """Pre-norm residual block: ``x += o(attend(...norm1(x)))``, then ``x += down(act(up(norm2(x))))``.

    Parameters
    ----------
    config : TinyConfig
        Shape of the model.
    draw : callable ``(shape, std) -> Tensor``
        Draws a weight; asked for q, k, v, o, up, gate (swiglu only) and down, in this order.

    Attributes
    ----------
    attend : callable ``(q, k, v, mask, causal) -> out``, or None
        Replaces scaled dot-product attention. q has shape (B, heads, T, head size); k and v have shape
        (B, kv heads, S, head size), with the cache in front and groups not expanded; q and k are rotated.
        `mask` is None or a boolean (B or 1, 1, T, S) array, true where query t may see key s, causality
        included; `causal` is true only where `mask` is None and query t must not see keys after t. `out` has
        the shape of q.

    Examples
    --------
    >>> import torch
    >>> from porism.sims.tiny_transformer import TinyConfig, TinyTransformer
    >>> model = TinyTransformer(TinyConfig(vocab=5, d=8, heads=2))
    >>> model.blocks[0].attend = lambda q, k, v, mask, causal: v
    >>> model(torch.tensor([[1, 3, 0]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: TinyConfig, draw: Callable[[tuple[int, ...], float], Tensor]) -> None:
        super().__init__()
        d, ff, inner = config.d, config.width, config.head_size * config.groups
        self.config = config
        last = 1 / math.sqrt(2 * config.layers)  # keeps the residual stream's size from growing with depth

        def linear(out: int, into: int, scale: float = 1.0) -> TinyLinear:
            return TinyLinear(draw((out, into), scale / math.sqrt(into)))

        self.norm1, self.norm2 = make_norm(config), make_norm(config)
        self.q, self.k, self.v = linear(d, d), linear(inner, d), linear(inner, d)
        self.o = linear(d, d, last)
        self.up = linear(ff, d)
        if config.act == "swiglu":
            self.gate = linear(ff, d)
        self.down = linear(d, ff, last)
        self.attend: Attend | None = None

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor] | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        token_mask: Tensor | None = None,
        cache: list[Any] | None = None,
    ) -> Tensor:
        """Add what the block computes to the residual stream.

        Parameters
        ----------
        x : Tensor, shape (B, T, d)
            Residual stream.
        rotation : pair of Tensor, shape (B or 1, 1, T, head size / 2), optional
            Cosines and sines of the rotary angles.
        mask : Tensor of bool, shape (B or 1, 1, T, S), optional
            True where query t may see key s.
        causal : bool, default False
            Whether the attention itself has to hide later keys.
        token_mask : Tensor, shape (B, T), optional
            Weight of the adapters at each token.
        cache : list of two, optional
            Keys and values so far, or None and None; replaced by the longer ones.

        Returns
        -------
        Tensor, shape (B, T, d)
            Residual stream.
        """
        h = self.norm1(x)
        q, k, v = (self._split(part(h, token_mask)) for part in (self.q, self.k, self.v))
        if rotation is not None:
            q, k = _rotate(q, *rotation), _rotate(k, *rotation)
        if cache is not None:
            if cache[0] is not None:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            cache[:] = [k, v]
        if self.attend is not None:
            out = self.attend(q, k, v, mask, causal)
        else:
            shared = q.shape[1] != k.shape[1]
            out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=shared)
        x = x + self.o(out.transpose(1, 2).flatten(2), token_mask)
        h = self.norm2(x)
        y = self.up(h, token_mask)
        if self.config.act == "swiglu":
            y = F.silu(self.gate(h, token_mask)) * y
        else:
            y = F.relu(y) if self.config.act == "relu" else F.gelu(y)
        return x + self.down(y, token_mask)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], -1, self.config.head_size).transpose(1, 2)


def make_norm(config: TinyConfig) -> nn.Module:
    kind = nn.RMSNorm if config.norm == "rms" else nn.LayerNorm
    return kind(config.d, eps=EPS, dtype=torch.float32, device="cpu")


def angles(positions: Tensor, config: TinyConfig, like: Tensor) -> tuple[Tensor, Tensor]:
    half = config.head_size // 2
    power = torch.arange(half, dtype=torch.float64, device=like.device) / half
    turn = positions.double()[..., None] * config.rope_base**-power
    turn = turn.view(-1, 1, *turn.shape[-2:])  # batch, head, token, pair
    return turn.cos().to(like.dtype), turn.sin().to(like.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
