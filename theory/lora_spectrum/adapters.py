"""The spectrum of every module of a saved adapter."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from porism.checks import require
from porism.results import Result
from porism.theory.lora_spectrum import _adapter_files, _safetensors
from porism.theory.lora_spectrum._layout import DORA, matrices, statistics
from porism.theory.lora_spectrum._pairs import adapters, is_dora, live_factors
from porism.theory.lora_spectrum._values import numpy_values
from porism.theory.lora_spectrum.recorder import LoraSpectrumRecorder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AdapterSpectrum", "adapter_spectra", "read_adapter_config", "read_adapter_spectrum"]


@dataclass(frozen=True, eq=False)
class AdapterSpectrum(Result):
    """Singular values of ``scaling * B @ A`` of each module of an adapter; arrays have one entry a module.

    Parameters
    ----------
    spectra : dict of str to float64 array, shape (r,)
        Singular values, descending, by module name (as in the base model).
    rank : int64 array, shape (K,)
        r of each module, in the order of `spectra`.
    scaling : float64 array, shape (K,)
        Factor that multiplies BA.
    shape : int64 array, shape (K, 2)
        Shape (m, n) of BA; of a convolution, outputs by entries of a patch.
    kind : str array, shape (K,)
        "linear", "conv", "embedding", or "expert" for one member of a stack.
    unread : tuple of str
        Tensors of the file that are no factors, such as modules_to_save, biases and magnitudes.
    dora : bool
        Whether the adapter rescales its columns afterwards, which the spectrum leaves out.

    Examples
    --------
    >>> size, kind = dict(rank=np.array([2]), shape=np.array([[3, 4]])), np.array(["linear"])
    >>> s = {"q": np.array([2.0, 1.0])}
    >>> found = AdapterSpectrum(s, scaling=np.ones(1), kind=kind, unread=(), dora=False, **size)
    >>> found.modules, found.stable_rank
    (('q',), array([1.25]))
    """

    spectra: dict[str, NDArray[np.float64]]
    rank: NDArray[np.int64]
    scaling: NDArray[np.float64]
    shape: NDArray[np.int64]
    kind: NDArray[np.str_]
    unread: tuple[str, ...]
    dora: bool

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules."""
        return tuple(self.spectra)

    @property
    def stable_rank(self) -> NDArray[np.float64]:
        """Sum of squares over the largest square, of each module."""
        return self._statistic("stable_rank")

    @property
    def effective_rank(self) -> NDArray[np.float64]:
        """Exponential of the entropy of the normalised values, of each module."""
        return self._statistic("effective_rank")

    @property
    def participation_ratio(self) -> NDArray[np.float64]:
        """Squared sum of squares over the sum of fourth powers, of each module."""
        return self._statistic("participation_ratio")

    def to_frame(self) -> Any:
        """Long table of the singular values.

        Returns
        -------
        DataFrame
            Columns module, index (0 is the largest), singular_value, and by module rank, scaling, stable_rank
            and effective_rank.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        pandas = require("pandas", "tables")
        sizes = [len(values) for values in self.spectra.values()]
        columns: dict[str, Any] = {
            "module": np.repeat(np.array(self.modules, dtype=object), sizes),
            "index": np.concatenate([np.arange(size) for size in sizes]),
            "singular_value": np.concatenate(list(self.spectra.values())),
        }
        by_module: dict[str, Any] = {"rank": self.rank, "scaling": self.scaling}
        by_module |= {name: self._statistic(name) for name in ("stable_rank", "effective_rank")}
        columns |= {name: np.repeat(values, sizes) for name, values in by_module.items()}
        return pandas.DataFrame(columns)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the spectrum of each module on a logarithmic axis; zeros are left out.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        from matplotlib import pyplot

        ax = ax if ax is not None else pyplot.subplots()[1]
        few = len(self.spectra) <= 8
        for name, values in self.spectra.items():
            shown = np.where(values > 0, values, np.nan)
            look: dict[str, Any] = {"label": name} if few else {"color": "#0072B2", "alpha": 0.4}
            ax.plot(np.arange(1, len(values) + 1), shown, "o-", ms=3, **look)
        if any((values > 0).any() for values in self.spectra.values()):
            ax.set_yscale("log")
        ax.set(xlabel="index", ylabel="singular value of BA", title=f"{len(self.spectra)} adapted modules")
        if few:
            ax.legend()
        return ax

    def _statistic(self, name: str) -> NDArray[np.float64]:
        return np.array([statistics(values)[name] for values in self.spectra.values()], dtype=np.float64)


def read_adapter_spectrum(path: str | os.PathLike[str]) -> AdapterSpectrum:
    """Singular values of the update ``scaling * B @ A`` of every module of a saved peft adapter.

    The scaling is ``alpha / r``, or ``alpha / sqrt(r)`` where the adapter says ``use_rslora``, with r and
    alpha of the module after `rank_pattern` and `alpha_pattern`.

    Parameters
    ----------
    path : path
        Folder with adapter_config.json and adapter_model.safetensors, as ``save_pretrained`` writes it. peft
        puts each adapter but the default one into a folder of its own.

    Returns
    -------
    AdapterSpectrum
        One spectrum a module; the members of stacked experts are modules ``name[0]``, ``name[1]``, ...

    Raises
    ------
    FileNotFoundError
        If the folder or one of the two files is missing, or the weights are a pickle.
    KeyError
        If one factor of a module is missing.
    ValueError
        If a file is damaged or of an unknown type, the adapter is no LoRA or a variant whose update is not
        BA, a stored rank contradicts the config, or a factor has a value that is not finite.

    Warns
    -----
    UserWarning
        If the adapter is a DoRA: the spectrum is of BA before magnitude rescaling.

    Notes
    -----
    Neither torch nor peft is needed, only the factors are read from the file (dense weights of
    `modules_to_save` are not), and BA is never formed. A pattern fits a module whose name it matches from any
    dot on to the end; the first one in the file counts. Starts such as PiSSA change the base weight too: the
    spectrum is then relative to that changed weight.

    References
    ----------
    Hu et al. 2021, arXiv 2106.09685 (LoRA). Kalajdzievski 2023, arXiv 2312.03732 (rank stabilisation). Liu et
    al. 2024, arXiv 2402.09353 (DoRA).

    Examples
    --------
    >>> read_adapter_spectrum("runs/adapter").to_frame()  # doctest: +SKIP
    """
    config_file, weights = _adapter_files.locate(Path(path))
    config = _adapter_files.read_config(config_file)
    entries = _safetensors.index(weights)
    found, rest = _adapter_files.pairs(list(entries))
    if not found:
        raise ValueError(
            f"{weights} has no lora_A and lora_B, got {list(entries)[:3]}; is it an adapter of peft?"
        )
    dora = bool(config.get("use_dora")) or any("lora_magnitude_vector" in name for name in rest)
    if dora:
        warnings.warn(DORA, UserWarning, stacklevel=2)
    spectra: dict[str, NDArray[np.float64]] = {}
    table = []
    for module in sorted(found, key=_natural):
        b_name, a_name, kind = found[module]
        factors = []
        for name in (b_name, a_name):
            factors.append(_safetensors.read(weights, name, entries[name]))
            if not np.isfinite(factors[-1]).all():
                raise ValueError(f"{name} of {weights} must be finite, got NaN or infinity; the run diverged")
        rank, alpha, wrapped = _adapter_files.assigned(module, config)
        rows = factors[1].shape[0] if factors[1].ndim else 0
        stacked = wrapped and rows % rank == 0 and factors[0].shape[-1:] == (rows,)
        experts = max(rows // rank, 1) if stacked else 1
        B, A, shape_kind = matrices(module, factors[0], factors[1], experts)
        if A.shape[-2] != rank or B.shape[-1] != rank:
            raise ValueError(
                f"{module} must have the rank {rank} of its config, got factors of shapes "
                f"{factors[0].shape} and {factors[1].shape}; config and weights are of different adapters"
            )
        scale = _adapter_files.scaling(rank, alpha, bool(config.get("use_rslora")))
        values = numpy_values(B, A) * abs(scale)
        names = [f"{module}[{e}]" for e in range(experts)] if experts > 1 else [module]
        for name, row in zip(names, values.reshape(-1, rank), strict=True):
            spectra[name] = row
            table.append((rank, scale, B.shape[-2], A.shape[-1], kind or shape_kind))
    return _collected(spectra, table, tuple(rest), dora)


def read_adapter_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a saved peft adapter says of itself.

    Parameters
    ----------
    path : path
        Folder of the adapter, as for :func:`read_adapter_spectrum`.

    Returns
    -------
    dict
        Entries of adapter_config.json, those that decide about a scaling checked.

    Raises
    ------
    FileNotFoundError
        If the folder or one of the two files is missing, or the weights are a pickle.
    ValueError
        If the file is damaged, or the adapter is no LoRA or a variant whose update is not BA.

    Examples
    --------
    >>> read_adapter_config("runs/adapter")["lora_alpha"]  # doctest: +SKIP
    16
    """
    return _adapter_files.read_config(_adapter_files.locate(Path(path))[0])


def adapter_spectra(model: Any) -> dict[str, AdapterSpectrum]:
    """Singular values of the updates of every adapter that a live model carries.

    Parameters
    ----------
    model : torch.nn.Module
        A PeftModel, or any model whose modules hold `lora_A` and `lora_B` by name of the adapter.

    Returns
    -------
    dict of str to AdapterSpectrum
        By name of the adapter; empty without one. A factor that is not finite gives NaN.

    Raises
    ------
    KeyError
        If a module lacks one of its factors.

    Examples
    --------
    >>> adapter_spectra(model)["default"].stable_rank  # doctest: +SKIP
    """
    return {name: _live(model, name) for name in adapters(model)}


def _live(model: Any, adapter: str) -> AdapterSpectrum:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of DoRA, which the result says itself
        recorder = LoraSpectrumRecorder(model, adapter=adapter)
    recorder.step(0)
    spectra = {name: rows[0] for name, rows in recorder.history().spectra.items()}
    table: list[tuple[Any, ...]] = []
    for (_, B, A, scaling), kind in live_factors(model, adapter):
        experts = 1 if A.ndim == 2 else int(A.shape[0])
        table += [(A.shape[-2], scaling, B.shape[-2], A.shape[-1], kind)] * experts
    return _collected(spectra, table, (), is_dora(model, adapter))


def _collected(
    spectra: dict[str, NDArray[np.float64]], table: list[tuple[Any, ...]], unread: tuple[str, ...], dora: bool
) -> AdapterSpectrum:
    ranks, scales, m, n, kinds = zip(*table, strict=True)
    return AdapterSpectrum(
        spectra,
        np.array(ranks, dtype=np.int64),
        np.array(scales, dtype=np.float64),
        np.array([m, n], dtype=np.int64).T,
        np.array(kinds),
        unread,
        dora,
    )


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sort key that puts layer 2 before layer 10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.split(".")]
