"""The tiny transformer as a module of torch; `porism.sims.tiny_transformer` shows it and loads it late."""

import json
import math
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import porism
from porism.checks import integer, require, write_atomic
from porism.sims._blocks import Block, TinyLinear, angles, make_norm
from porism.sims.tiny_transformer import MAX_PARAMETERS, TinyConfig

__all__ = ["Block", "TinyLinear", "TinyTransformer"]

FORMAT = 1
Cache = list[list[Any]]


class TinyTransformer(nn.Module):
    """Pre-norm transformer with plain residual blocks, no dropout and no biases in its linear maps.

    Parameters
    ----------
    config : TinyConfig
        Shape.
    seed : int, default 0
        Seed of the model's own generator.
    allow_large : bool, default False
        Whether more than a million parameters are allowed.

    Attributes
    ----------
    config, seed
        As passed.
    tokenizer, corpus_hash : str
        Of the corpus it was trained on; `porism.sims.fit.fit` sets them, `save` keeps them.

    Raises
    ------
    ValueError
        If the model has more than `MAX_PARAMETERS` parameters and `allow_large` is false.

    Notes
    -----
    Linear maps are drawn from N(0, 1/in), o and down further divided by ``sqrt(2 layers)``; embedding,
    positions and the readout token from N(0, 0.02**2). All draws are float32 on the CPU in the order
    embedding, input map, positions, readout token, per block q, k, v, o, up, gate, down, then head. A model
    in float64 is ``.double()`` of it. Norms have eps 1e-5 inside the root. No global seed is read or set.

    Examples
    --------
    >>> import torch
    >>> model = TinyTransformer(TinyConfig(vocab=96), seed=0)
    >>> model(torch.arange(8)[None]).shape
    torch.Size([1, 8, 96])
    >>> list(model.named_linears())[:4]
    ['blocks.0.q', 'blocks.0.k', 'blocks.0.v', 'blocks.0.o']
    """

    def __init__(self, config: TinyConfig, seed: int = 0, *, allow_large: bool = False) -> None:
        super().__init__()
        if config.n_parameters > MAX_PARAMETERS and not allow_large:
            raise ValueError(
                f"config must have at most {MAX_PARAMETERS:,} parameters, got {config.n_parameters:,}; "
                "make it smaller or pass allow_large=True"
            )
        self.config, self.seed = config, integer("seed", seed, 0, 2**64 - 1)
        self.tokenizer = self.corpus_hash = ""
        generator = torch.Generator().manual_seed(self.seed)

        def draw(shape: tuple[int, ...], std: float) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu") * std

        c, token = config, config.readout == "token"
        if c.vocab:
            self.embedding = nn.Parameter(draw((c.vocab, c.d), 0.02))
        else:
            self.input_map = TinyLinear(draw((c.d, c.input_dim), 1 / math.sqrt(c.input_dim)))
        if c.position == "learned":
            self.positions = nn.Parameter(draw((c.max_len + token, c.d), 0.02))
        if token:
            self.readout_token = nn.Parameter(draw((c.d,), 0.02))
        self.blocks = nn.ModuleList(Block(c, draw) for _ in range(c.layers))
        self.norm = make_norm(c)
        if c.n_out or not c.tie:
            self.head = TinyLinear(draw((c.outputs, c.d), 1 / math.sqrt(c.d)))

    def forward(
        self,
        x: Tensor,
        *,
        key_mask: Tensor | None = None,
        token_mask: Tensor | None = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
        hidden: bool = False,
    ) -> Any:
        """Run the model.

        Parameters
        ----------
        x : Tensor, shape (B, T) of int, or (B, T, input_dim) of float
            Tokens.
        key_mask : Tensor of bool, shape (B, T), or (B, past + T) with a cache, optional
            True for tokens that others may attend to; each token may always attend to itself.
        token_mask : Tensor, shape (B, T), or (B, T + 1) with readout "token", optional
            Weight of the adapters at each token; 0 switches them off there.
        positions : Tensor of int, shape (T,) or (B, T), optional
            Position of each token, by default 0 ... T-1; required with a cache. The appended readout token
            stands one after the last.
        cache : list of ``[keys, values]``, one a block, optional
            From `new_cache`; the keys and values of x are appended in place.
        hidden : bool, default False
            Whether to return the residual streams too.

        Returns
        -------
        Tensor, shape (B, T, outputs) for readout "all", else (B, outputs)
            Output of the head; with `hidden` a pair of it and the list of ``layers + 1`` residual streams
            before the final norm, each (B, T or T + 1, d).

        Raises
        ------
        TypeError
            If token ids, positions or the key mask have the wrong type.
        ValueError
            If a shape does not fit, a token id or a learned position is out of range, there are more than
            `max_len` tokens, or a cache comes without positions or with readout "mean" or "token".
        """
        c = self.config
        batch, T, past = self._check(x, cache, positions)
        h = (
            F.embedding(x.long(), self.embedding)
            if c.vocab
            else self.input_map(
                x.to(self.input_map.weight.dtype), None if token_mask is None else token_mask[:, :T]
            )
        )
        where = torch.arange(T, device=x.device) if positions is None else positions.to(x.device)
        if c.readout == "token":
            where = torch.cat([where, where[..., -1:] + 1], dim=-1)
            h = torch.cat([h, self.readout_token.expand(batch, 1, c.d)], dim=1)
        length = h.shape[1]
        if token_mask is not None:
            _shape("token_mask", token_mask, (batch, length))
            token_mask = token_mask.to(h)
        if c.position == "learned":
            if bool((where < 0).any()) or bool((where >= len(self.positions)).any()):
                raise ValueError(
                    f"positions must be in 0..{len(self.positions) - 1} where they are learned, got "
                    f"{int(where.min())}..{int(where.max())}; clamp those of the padding"
                )
            h = h + self.positions[where]
        rotation = angles(where, c, h) if c.position == "rope" else None
        mask, causal = self._mask(key_mask, batch, T, past, x.device)
        streams = [h]
        for i, block in enumerate(self.blocks):
            h = block(h, rotation, mask, causal, token_mask, None if cache is None else cache[i])
            streams.append(h)
        out = self._read(self.norm(h), key_mask, token_mask)
        return (out, streams) if hidden else out

    def new_cache(self) -> Cache:
        """Make an empty cache.

        Returns
        -------
        list of list
            One ``[None, None]`` a block, which `forward` turns into ``[keys, values]``, each of shape
            (B, kv heads, past, head size), keys rotated.
        """
        return [[None, None] for _ in self.blocks]

    def named_linears(self) -> dict[str, TinyLinear]:
        """List the linear maps of the blocks.

        Returns
        -------
        dict of str to TinyLinear
            From "blocks.0.q" on, per block q, k, v, o, up, gate, down; neither the input map nor the head.
        """
        parts = ("q", "k", "v", "o", "up", "gate", "down")
        return {
            f"blocks.{i}.{part}": getattr(block, part)
            for i, block in enumerate(self.blocks)
            for part in parts
            if hasattr(block, part)
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, config, seed, tokenizer name and corpus hash to one file, whole or not at all.

        Parameters
        ----------
        path : path
            File to create or replace, by custom named ``.safetensors``; equal models give equal bytes.

        Raises
        ------
        MissingExtraError
            If safetensors is not installed.
        ValueError
            If a layer has an adapter, which the file could not hold.
        """
        adapted = [n for n, m in self.named_modules() if isinstance(m, TinyLinear) and m.adapter is not None]
        if adapted:
            raise ValueError(
                f"a saved model must have no adapters, got one at {adapted[0]} ({len(adapted)} in all); "
                "merge them, or set adapter to None and keep their state_dict yourself"
            )
        header = {
            "format": FORMAT,
            "porism": porism.__version__,
            "config": json.loads(self.config.to_json()),
            "seed": self.seed,
            "tokenizer": self.tokenizer,
            "corpus_hash": self.corpus_hash,
        }
        # one entry: safetensors writes several in an arbitrary order
        metadata = {"porism": json.dumps(header, sort_keys=True)}
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        content = require("safetensors.torch", "hf").save(tensors, metadata)
        write_atomic(path, lambda stream: stream.write(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TinyTransformer":
        """Read a model back, on the CPU and with the dtype it had.

        Parameters
        ----------
        path : path
            File written by `save`.

        Returns
        -------
        TinyTransformer
            Equal to the saved one, bit for bit.

        Raises
        ------
        MissingExtraError
            If safetensors is not installed.
        OSError
            If the file does not exist or is a folder.
        ValueError
            If the file is no saved model, is damaged, or comes from a later version.
        """
        name = os.fspath(path)
        safetensors = require("safetensors", "hf")
        open(name, "rb").close()  # errors that name the file, as safetensors' own do not
        try:
            with safetensors.safe_open(name, framework="pt") as stored:
                header = json.loads(stored.metadata()["porism"])
                tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
            version = int(header["format"])
        except OSError:
            raise
        except Exception:
            raise ValueError(f"{name} is not a saved tiny transformer; write one with .save(path)") from None
        if version > FORMAT:
            raise ValueError(
                f"{name} has format {version}, written by porism {header['porism']}; this version reads up "
                f"to {FORMAT}: update porism"
            )
        try:
            config = TinyConfig.from_json(json.dumps(header["config"]))
            held = sum(tensor.numel() for tensor in tensors.values())
            if held != config.n_parameters:  # before memory for them is taken
                raise ValueError(f"it holds {held} parameters, the config asks for {config.n_parameters}")
            model = cls(config, header["seed"], allow_large=True)
            model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
            model.tokenizer, model.corpus_hash = str(header["tokenizer"]), str(header["corpus_hash"])
        except Exception as error:
            raise ValueError(f"{name} holds a model that does not fit its config: {error}") from error
        return model

    def _check(self, x: Tensor, cache: Cache | None, positions: Tensor | None) -> tuple[int, int, int]:
        """Numbers of rows, of tokens, and of tokens in the cache."""
        c, past = self.config, 0
        expected = "(B, T)" if c.vocab else f"(B, T, {c.input_dim})"
        if x.ndim != (2 if c.vocab else 3) or 0 in x.shape or (c.input_dim and x.shape[2] != c.input_dim):
            raise ValueError(f"x must have shape {expected} without an empty axis, got {tuple(x.shape)}")
        if c.vocab and (x.dtype == torch.bool or x.is_floating_point() or x.is_complex()):
            raise TypeError(f"x must hold integer token ids, got {x.dtype}; convert it with .long()")
        if c.vocab and (int(x.min()) < 0 or int(x.max()) >= c.vocab):
            raise ValueError(
                f"token ids must be in 0..{c.vocab - 1}, got {int(x.min())}..{int(x.max())}; "
                "use the corpus that the config was made for"
            )
        batch, T = int(x.shape[0]), int(x.shape[1])
        if cache is not None:
            if len(cache) != c.layers or any(len(entry) != 2 for entry in cache):
                raise ValueError(f"cache must be {c.layers} lists of two; start from model.new_cache()")
            if positions is None:
                raise ValueError("positions must be passed with a cache, got None; pass past, ..., past+T-1")
            if c.readout in ("mean", "token"):
                raise ValueError(f"cache must be None with readout={c.readout!r}; use 'all' or 'last'")
            past = 0 if cache[0][0] is None else int(cache[0][0].shape[2])
        if past + T > c.max_len:
            raise ValueError(
                f"x must have at most max_len={c.max_len} tokens, got {past + T}"
                f"{f', {past} of them in the cache' if past else ''}; shorten it or make a longer model"
            )
        if positions is not None:
            if positions.dtype == torch.bool or positions.is_floating_point():
                raise TypeError(f"positions must be integers, got {positions.dtype}; convert with .long()")
            if tuple(positions.shape) not in ((T,), (batch, T)):
                raise ValueError(
                    f"positions must have shape ({T},) or ({batch}, {T}), got {tuple(positions.shape)}"
                )
        return batch, T, past

    def _mask(
        self, key_mask: Tensor | None, batch: int, T: int, past: int, device: torch.device
    ) -> tuple[Tensor | None, bool]:
        c = self.config
        if key_mask is not None:
            _shape("key_mask", key_mask, (batch, past + T))
            if key_mask.dtype != torch.bool:
                raise TypeError(f"key_mask must hold bools, got {key_mask.dtype}; convert it with .bool()")
        if c.readout == "token":
            T += 1
            if key_mask is not None:
                key_mask = F.pad(key_mask, (0, 1), value=True)
        if key_mask is None:
            if not c.causal or T == 1:  # one new token sees the whole cache
                return None, False
            if not past:
                return None, True
        query = torch.arange(past, past + T, device=device)[:, None]
        key = torch.arange(past + T, device=device)
        seen = key <= query if c.causal else torch.ones_like(key <= query)
        seen = seen[None, None]
        if key_mask is not None:
            seen = seen & key_mask.to(device)[:, None, None, :] | (key == query)
        return seen, False

    def _read(self, h: Tensor, key_mask: Tensor | None, token_mask: Tensor | None) -> Tensor:
        readout = self.config.readout
        if readout in ("last", "token"):
            h, token_mask = h[:, -1], None if token_mask is None else token_mask[:, -1]
        elif readout == "mean":
            kept = h.new_ones(h.shape[:2]) if key_mask is None else key_mask.to(h)
            weight = kept / kept.sum(dim=1, keepdim=True).clamp(min=1)
            h = (weight[..., None] * h).sum(dim=1)
            token_mask = None if token_mask is None else (weight * token_mask).sum(dim=1)
        return self.head(h, token_mask) if hasattr(self, "head") else F.linear(h, self.embedding)


def _shape(name: str, value: Tensor, expected: tuple[int, int]) -> None:
    if tuple(value.shape) != expected:
        raise ValueError(f"{name} must have shape {expected}, got {tuple(value.shape)}; one value a token")


for _shown in (Block, TinyLinear, TinyTransformer):
    _shown.__module__ = "porism.sims.tiny_transformer"  # where users import and unpickle them from
