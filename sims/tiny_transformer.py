"""The one small transformer that simulators train: deterministic, on a CPU, with slots to plug things in.

`TinyConfig` and `check_rule` are plain; `TinyTransformer`, `TinyLinear` and `Block` are modules of torch.
They come on first use, so that importing this file loads no torch; without torch they are not there.
"""

import importlib
import importlib.util
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from porism.checks import integer, one_of, positive, require

if TYPE_CHECKING:
    from porism.sims._transformer import Block, TinyLinear, TinyTransformer

__all__ = ["MAX_PARAMETERS", "TinyConfig", "check_rule"]

_TORCH = ("Block", "TinyLinear", "TinyTransformer")
if TYPE_CHECKING or importlib.util.find_spec("torch"):
    __all__ += ["Block", "TinyLinear", "TinyTransformer"]

MAX_PARAMETERS = 1_000_000
"""Largest model that is made without ``allow_large=True``."""

POSITIONS, NORMS = ("rope", "learned", "none"), ("rms", "layer")
ACTIVATIONS, READOUTS = ("gelu", "relu", "swiglu"), ("all", "last", "mean", "token")


def __getattr__(name: str) -> Any:
    if name not in _TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("torch", "torch")
    module = importlib.import_module("porism.sims._transformer")
    globals().update({entry: getattr(module, entry) for entry in _TORCH})
    return globals()[name]


@dataclass(frozen=True)
class TinyConfig:
    """Shape of a tiny transformer.

    Parameters
    ----------
    vocab : int, default 0
        Number of token ids; 0 for continuous tokens.
    input_dim : int, default 0
        Size of a continuous token; exactly one of `vocab` and `input_dim` is positive.
    n_out : int, default 0
        0: a language-model head of size `vocab`; positive: a head of its own of that size.
    d : int, default 64
        Width of the residual stream.
    layers : int, default 2
        Number of blocks.
    heads : int, default 4
        Number of query heads; divides `d`.
    kv_heads : int, default 0
        Number of key and value heads, divides `heads`; 0: as many. Query head h uses group
        ``h // (heads // kv_heads)``.
    d_ff : int, default 0
        Width of the feed-forward part; 0: ``4 d``, for swiglu ``8 d / 3`` rounded up to a multiple of 8.
    max_len : int, default 128
        Largest number of tokens; the token that ``readout="token"`` appends does not count.
    causal : bool, default True
        Whether a token sees only itself and those before it.
    position : {"rope", "learned", "none"}
        How positions enter; rope pairs entry j of a head with entry ``j + d_head / 2``.
    norm : {"rms", "layer"}
        Norm before each half of a block and before the readout.
    act : {"gelu", "relu", "swiglu"}
        Activation; gelu is the exact one.
    tie : bool, default True
        Whether the language-model head is the embedding; ignored where `n_out` is positive.
    readout : {"all", "last", "mean", "token"}
        Which tokens the head reads: every one, the one at index T-1, their mean, or one learned token that is
        appended.
    rope_base : float, default 10000
        Base of the rotary frequencies, > 0.

    Raises
    ------
    TypeError
        If a size is not an int or a switch is not a bool.
    ValueError
        If a size is out of range, a word is unknown, or two fields contradict each other.

    Examples
    --------
    >>> TinyConfig(vocab=96).n_parameters
    104768
    """

    vocab: int = 0
    input_dim: int = 0
    n_out: int = 0
    d: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 0
    d_ff: int = 0
    max_len: int = 128
    causal: bool = True
    position: str = "rope"
    norm: str = "rms"
    act: str = "gelu"
    tie: bool = True
    readout: str = "all"
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        for name in ("d", "layers", "heads", "max_len"):
            integer(name, getattr(self, name), 1)
        for name in ("vocab", "input_dim", "n_out", "kv_heads", "d_ff"):
            integer(name, getattr(self, name), 0)
        for name in ("causal", "tie"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}; pass a bool")
        one_of("position", self.position, POSITIONS)
        one_of("norm", self.norm, NORMS)
        one_of("act", self.act, ACTIVATIONS)
        one_of("readout", self.readout, READOUTS)
        positive("rope_base", self.rope_base)
        if (self.vocab > 0) == (self.input_dim > 0):
            raise ValueError(
                f"exactly one of vocab and input_dim must be positive, got vocab={self.vocab} and "
                f"input_dim={self.input_dim}; set vocab for token ids, input_dim for continuous tokens"
            )
        if self.input_dim and not self.n_out:
            raise ValueError(
                f"n_out must be positive with input_dim, got 0 with input_dim={self.input_dim}; "
                "set n_out to the number of outputs"
            )
        if self.d % self.heads:
            raise ValueError(
                f"heads must divide d, got heads={self.heads} and d={self.d}; change one of them"
            )
        if self.heads % self.groups:
            raise ValueError(
                f"kv_heads must divide heads, got kv_heads={self.kv_heads} and heads={self.heads}; "
                "change one of them"
            )
        if self.position == "rope" and self.head_size % 2:
            raise ValueError(
                f"the head size d / heads must be even with position='rope', got {self.head_size}; "
                "change d or heads, or use learned positions"
            )

    @property
    def head_size(self) -> int:
        """Size of one head, ``d / heads``."""
        return self.d // self.heads

    @property
    def groups(self) -> int:
        """Number of key and value heads after the default."""
        return self.kv_heads or self.heads

    @property
    def width(self) -> int:
        """Width of the feed-forward part after the default."""
        if self.d_ff:
            return self.d_ff
        return 8 * -(-8 * self.d // 24) if self.act == "swiglu" else 4 * self.d

    @property
    def outputs(self) -> int:
        """Number of outputs of the head."""
        return self.n_out or self.vocab

    @property
    def n_parameters(self) -> int:
        """Number of parameters of a model of this shape."""
        d, norm = self.d, self.d * (2 if self.norm == "layer" else 1)
        matrices = 2 * d * d + 2 * d * self.head_size * self.groups
        matrices += (3 if self.act == "swiglu" else 2) * d * self.width
        total = (self.vocab + self.input_dim) * d + self.layers * (matrices + 2 * norm) + norm
        if self.position == "learned":
            total += (self.max_len + (self.readout == "token")) * d
        if self.readout == "token":
            total += d
        return total + (0 if self.tie and not self.n_out else self.outputs * d)

    def to_json(self) -> str:
        """Write the fields as one line of JSON.

        Returns
        -------
        str
            What `from_json` reads.
        """
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "TinyConfig":
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str
            One JSON object with fields of a config.

        Returns
        -------
        TinyConfig
            The config; fields that an older file lacks take their defaults.

        Raises
        ------
        ValueError
            If the text is no JSON object or has a field that this version does not know.
        """
        fields = json.loads(text)
        if not isinstance(fields, dict) or set(fields) - set(cls.__dataclass_fields__):
            raise ValueError(
                f"the config must be a JSON object of fields of TinyConfig, got {text[:60]!r}; "
                "a later version of porism may have written it"
            )
        return cls(**fields)


def check_rule(layer: Any, tolerance: float = 1e-12) -> float:
    """Test that the backward rule of a layer leaves the forward direction alone.

    The rule may send back what it likes, but ``rule(x, weight) = x weight'`` must hold.

    Parameters
    ----------
    layer : TinyLinear
        Layer with a `rule`; it is not changed.
    tolerance : float, default 1e-12
        Largest difference allowed, relative to the largest output, > 0.

    Returns
    -------
    float
        The difference found, on 3 x 5 random tokens in float64.

    Raises
    ------
    ValueError
        If the layer has no rule, or the rule returns another shape or other values.

    Examples
    --------
    >>> layer = TinyTransformer(TinyConfig(vocab=5)).named_linears()["blocks.0.q"]  # doctest: +SKIP
    >>> layer.rule = lambda x, weight: x @ weight.T  # doctest: +SKIP
    >>> check_rule(layer)  # doctest: +SKIP
    0.0
    """
    torch = require("torch", "torch")
    tolerance = positive("tolerance", tolerance)
    if getattr(layer, "rule", None) is None:
        raise ValueError("layer must have a rule, got none; set layer.rule first")
    weight = layer.weight.detach().double()
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(3, 5, weight.shape[1], generator=draws, dtype=torch.float64).to(weight.device)
    with torch.no_grad():
        expected, found = x @ weight.T, layer.rule(x, weight)
    if found.shape != expected.shape:
        raise ValueError(
            f"rule must return x @ weight.T, of shape {tuple(expected.shape)}, got {tuple(found.shape)}; "
            "change only its backward direction"
        )
    apart = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-300))
    if not apart <= tolerance:
        raise ValueError(
            f"rule must return x @ weight.T to {tolerance:g}, got a relative difference of {apart:.3g}; "
            "change only its backward direction"
        )
    return apart
