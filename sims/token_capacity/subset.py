"""Back-propagation through selected positions of a transformer: record all, replay the selected ones."""

import warnings
from dataclasses import dataclass
from typing import Any

from porism.checks import one_of, require
from porism.sims.token_capacity import _compat
from porism.sims.token_capacity._inputs import Inputs, read, targets
from porism.sims.token_capacity._positions import Plan, parse, plan
from porism.sims.token_capacity._record import Pass, exclusive, out_of_step, quiet, switched

__all__ = ["SubsetBackprop", "SubsetOutput"]


@dataclass(frozen=True)
class SubsetOutput:
    """Hidden states of the selected positions, with their gradient.

    Parameters
    ----------
    hidden : Tensor, shape (B, k, d)
        Last hidden states of the backbone; zero in unused slots.
    positions : LongTensor, shape (B, k)
        Sequence index of each slot, -1 for an unused one.
    valid : bool tensor, shape (B, k)
        False for unused slots.
    length : int
        T, tokens of a row.
    """

    hidden: Any
    positions: Any
    valid: Any
    length: int

    def scatter(self, full: Any = None) -> Any:
        """Put the selected rows back in their places: (B, T, d), where only they carry a gradient.

        Parameters
        ----------
        full : Tensor, shape (B, T, d), optional
            Values of the other positions, such as hidden states from a pass without gradient; detached.
            Zeros by default.

        Returns
        -------
        Tensor, shape (B, T, d)
            For heads that read all positions, such as mean pooling.

        Raises
        ------
        TypeError, ValueError
            If `full` is no tensor or has another shape.
        """
        torch = require("torch", "torch")
        rows, _, width = self.hidden.shape
        shape = (rows, self.length, width)
        if full is None:
            base = self.hidden.new_zeros(shape)
        elif not isinstance(full, torch.Tensor):
            raise TypeError(f"full must be a tensor, got {type(full).__name__}; pass all hidden states")
        elif tuple(full.shape) != shape:
            raise ValueError(f"full must have shape {shape}, got {tuple(full.shape)}; pass all hidden states")
        else:
            base = full.detach().to(self.hidden.dtype)
        row = torch.arange(rows, device=self.hidden.device)[:, None].expand_as(self.positions)
        places = (row[self.valid], self.positions[self.valid])
        return base.index_put(places, self.hidden[self.valid])


class SubsetBackprop:
    r"""Fine-tune a transformer through a subset S of positions; every other activation is a constant.

    .. math:: h_S = f\bigl(x_S;\ \theta,\ \mathrm{stop}(K_U, V_U)\bigr), \qquad U = [T] \setminus S

    A first pass without gradient records keys and values of the frozen positions U in every attention
    call; a second pass runs the k selected tokens alone, which attend to the recorded and to their own
    keys. Values are those of the full model; the gradient is cut at frozen positions.

    Parameters
    ----------
    model : transformers.PreTrainedModel or peft.PeftModel
        Backbone or model with a head, whose attention goes through transformers' registry.
    causal : bool, optional
        Whether attention is causal; read from the attention modules by default.
    attention : {"auto", "reference", "triton"}
        Path of the replay: the kernel's own choice, ordinary torch operations (keeps weights of k x T a
        head), or Triton.
    frozen_store : {"keep"}
        Where recorded keys and values lie; "cpu" is not there yet.
    verify : {"first", "always", "never"}
        Which batches are compared with the plain forward pass of the model. "first" sees only what the
        first batch shows: a window longer than its sequences, say, is not tried.
    frozen_dropout : bool, default False
        Whether the recording pass drops out in training mode; off by default, so frozen values are those
        of evaluation mode.

    Raises
    ------
    MissingExtraError
        If torch or transformers is not installed.
    TypeError
        If the model is of another kind.
    ValueError
        If an option is unknown, or causality cannot be read from the model or contradicts it.
    NotImplementedError
        If the model needs something that is not supported; the message names it.

    Notes
    -----
    For the last k tokens of a causal model the gradient is :math:`\sum_{t \in S} g_t x_t^T` with the true
    :math:`g_t` (TC-8), and only the first T - k tokens are run in the first pass. Key and value projections
    still lose the whole prefix part: 0.79 to 0.96 of the full gradient's norm was seen for 4 of 12 tokens.
    For other S the gradient is a truncation, and a readout outside S has gradient zero.

    The graph keeps about ``k c + (T - k) 2 d_kv`` numbers a layer, c the saved activations of a token.
    Gradient checkpointing keeps ``T d``: less than this for multi-head attention (``2 d_kv = 2 d``) and
    small k, more with few key heads. Its gradient is the full one: prefer it where that matters.

    Replay is exact with dropout off. With dropout in training mode frozen positions (of evaluation mode,
    or with another mask) and selected ones differ as any two dropout masks do; attention dropout keeps the
    weights in memory. A selected position may stand in any column.

    References
    ----------
    TC-7 to TC-9. The cut gradient is that of TokenTune (A. Simoulin et al., EMNLP 2024).

    Examples
    --------
    >>> step = SubsetBackprop(model)  # doctest: +SKIP
    >>> step.loss(labels, 16, input_ids=ids, attention_mask=mask).backward()  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        *,
        causal: bool | None = None,
        attention: str = "auto",
        frozen_store: str = "keep",
        verify: str = "first",
        frozen_dropout: bool = False,
    ) -> None:
        self.attention = one_of("attention", attention, ("auto", "reference", "triton"))
        self.verify = one_of("verify", verify, ("first", "always", "never"))
        if one_of("frozen_store", frozen_store, ("keep", "cpu")) == "cpu":
            raise NotImplementedError("frozen_store='cpu' is not supported yet; use 'keep'")
        if not isinstance(frozen_dropout, bool):
            raise TypeError(f"frozen_dropout must be True or False, got {frozen_dropout!r}")
        self.frozen_store, self.frozen_dropout = frozen_store, frozen_dropout
        self.model = model
        self._full, self._backbone = _compat.unwrap(model)
        self.causal = _compat.read_causal(self._backbone, causal)
        self._verified = False

    def forward(
        self,
        positions: Any,
        *,
        input_ids: Any = None,
        inputs_embeds: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        **per_token: Any,
    ) -> SubsetOutput:
        """Hidden states of selected positions, whose gradient stops at all other positions.

        Parameters
        ----------
        positions : int, LongTensor (B, k), or bool tensor (B, T)
            The last k real tokens of each row; sequence indices with -1 for unused slots; or a mask that
            selects the same number in every row.
        input_ids : LongTensor, shape (B, T), optional
            Tokens; this or `inputs_embeds`.
        inputs_embeds : Tensor, shape (B, T, d), optional
            Embeddings; those of selected positions get a gradient.
        attention_mask : Tensor, shape (B, T), optional
            1 for real tokens, 0 for padding; all real by default.
        position_ids : LongTensor, shape (B, T), optional
            Positions of the tokens; those that the model takes by itself by default.
        **per_token : Tensor, shape (B, T, ...)
            Further inputs with a value for each token, such as token_type_ids.

        Returns
        -------
        SubsetOutput
            Hidden states (B, k, d), positions and validity.

        Raises
        ------
        TypeError, ValueError
            If positions or inputs are wrong; messages name row and value.
        NotImplementedError
            If an input or the model needs what is not supported.
        RuntimeError
            If the replay differs from the plain forward pass, or the model is in use already.
        """
        inputs = read(
            self._backbone,
            self.causal,
            input_ids=input_ids,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            position_ids=position_ids,
            **per_token,
        )
        where = plan(parse(positions, inputs.real), inputs.real, self.causal)
        hidden = self._run(inputs, where, self._backbone, "last_hidden_state")
        if not bool(where.valid.all()):
            hidden = hidden.masked_fill(~where.valid[..., None], 0.0)
        return SubsetOutput(hidden, where.positions, where.valid, inputs.real.shape[1])

    def loss(self, labels: Any, positions: Any, *, reduction: str = "selected", **inputs: Any) -> Any:
        r"""Cross-entropy of the labels that selected positions predict; the head runs on S only.

        .. math:: L = -\frac1n \sum_{j :\, j - s \in S} \log p(\text{label}_j \mid h_{j-s})

        with shift s = 1 in a causal model and 0 otherwise; n counts these labels, or all of them.

        Parameters
        ----------
        labels : LongTensor, shape (B, T)
            Classes; -100 where there is none. Not shifted: index j is the label of token j.
        positions : int, LongTensor (B, k), or bool tensor (B, T)
            As in `forward`. In a causal model the predicting index j - 1 must be selected.
        reduction : {"selected", "all_labels"}
            What n counts: labels predicted from S, or all labels that some position predicts.
        **inputs : Tensor
            As in `forward`.

        Returns
        -------
        Tensor
            Scalar, in float32 at least.

        Raises
        ------
        ValueError
            If no label falls on a selected position, or labels do not fit.
        TypeError
            If the model has no head with a class for each token.

        Warns
        -----
        UserWarning
            If only some labels fall on selected positions; the message gives the dropped share.
        """
        torch = require("torch", "torch")
        one_of("reduction", reduction, ("selected", "all_labels"))
        if self._full is self._backbone:
            raise TypeError(
                f"loss needs a model with a head for each token, got the backbone "
                f"{type(self._full).__name__}; wrap such a model, or use forward and a head of your own"
            )
        data = read(self._backbone, self.causal, **inputs)
        where = plan(parse(positions, data.real), data.real, self.causal)
        chosen, total = targets(labels, where, self.causal)
        kept = int((chosen != -100).sum())
        if not kept:
            raise ValueError(
                "no label falls on a selected position; gradient would be zero. Select the positions that "
                f"predict labels{' (index j - 1 for label j)' if self.causal else ''}"
            )
        if kept < total:
            warnings.warn(
                f"{1 - kept / total:.0%} of the labels fall on no selected position and are dropped",
                UserWarning,
                stacklevel=2,
            )
        logits = self._run(data, where, self._full, "logits")
        if logits.ndim != 3 or logits.shape[:2] != chosen.shape:
            raise TypeError(
                f"loss needs logits for each token, got shape {tuple(logits.shape)} from "
                f"{type(self._full).__name__}; use forward and a head of your own"
            )
        wrong = chosen[(chosen >= logits.shape[2]) | ((chosen < 0) & (chosen != -100))]
        if wrong.numel():
            raise ValueError(f"labels must be in 0..{logits.shape[2] - 1} or -100, got {int(wrong[0])}")
        wide = logits if logits.dtype.itemsize >= 4 else logits.float()
        summed = torch.nn.functional.cross_entropy(wide.flatten(0, 1), chosen.flatten(), reduction="sum")
        return summed / (kept if reduction == "selected" else total)

    def _run(self, inputs: Inputs, where: Plan, model: Any, field: str) -> Any:
        """Record, verify if it is due, and replay through `model`."""
        _compat.check(self._backbone)
        with exclusive(self._backbone):
            pairs = self._record(inputs, where, self.frozen_dropout)
            if self.verify == "always" or (self.verify == "first" and not self._verified):
                self._verify(inputs, where, pairs)
                self._verified = True
            return self._replay(inputs, where, pairs, model, field)

    def _record(self, inputs: Inputs, where: Plan, dropout: bool) -> list[Any]:
        """Frozen keys and values of every attention call."""
        if not where.prefix:
            return []
        state = Pass(where, self.causal, recording=True, attention=self.attention)
        with quiet(self._backbone, inputs.real.device.type, dropout), switched(self._backbone, state):
            self._backbone(**inputs.first(where.prefix, self._backbone))
        self._called(state)
        return state.pairs

    def _replay(self, inputs: Inputs, where: Plan, pairs: list[Any], model: Any, field: str) -> Any:
        """Output of the selected tokens."""
        state = Pass(where, self.causal, recording=False, attention=self.attention, pairs=pairs)
        with switched(self._backbone, state):
            out = model(**inputs.at(where.gather, model))
        self._called(state)
        if where.prefix and state.calls != len(pairs):
            raise RuntimeError(out_of_step(f"{state.calls} attention calls, and the recording {len(pairs)}"))
        found = getattr(out, field, None)
        if found is None:
            raise TypeError(f"{type(model).__name__} returns no {field}; wrap a model that does")
        return found

    def _called(self, state: Pass) -> None:
        if not state.calls:
            raise NotImplementedError(
                f"{type(self._backbone).__name__} makes no attention call through transformers' registry, "
                "which subset back-propagation needs; train it on all positions"
            )

    def _verify(self, inputs: Inputs, where: Plan, pairs: list[Any]) -> None:
        """Compare replayed hidden states with the plain forward pass, both in evaluation mode."""
        torch = require("torch", "torch")
        backbone, device = self._backbone, inputs.real.device.type
        with quiet(backbone, device, dropout=False):
            full = backbone(**inputs.plain).last_hidden_state
            if self.frozen_dropout:
                pairs = self._record(inputs, where, dropout=False)
            replayed = self._replay(inputs, where, pairs, backbone, "last_hidden_state")
        index = where.gather[..., None].expand_as(replayed)
        wanted, got = full.gather(1, index)[where.valid].double(), replayed[where.valid].double()
        if not bool(torch.isfinite(wanted).all()):
            raise RuntimeError(
                "the plain forward pass of this model is not finite at selected positions, so the replay "
                f"cannot be verified; its attention is {backbone.config._attn_implementation!r}, try 'sdpa', "
                "or verify='never'"
            )
        half = torch.is_autocast_enabled(device) or any(p.dtype.itemsize < 4 for p in backbone.parameters())
        error, size = float((got - wanted).abs().max()), float(wanted.abs().max())
        if not error <= (3e-2 if half else 1e-4) * size:  # NaN too
            raise RuntimeError(
                f"replay differs from the full forward by {error:.3g} at layer output; "
                f"this architecture is not supported (largest value {size:.3g}, attention in the plain pass: "
                f"{backbone.config._attn_implementation!r})"
            )
