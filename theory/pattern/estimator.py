"""The solver as an estimator in the style of scikit-learn; works with and without it."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from porism.checks import require
from porism.theory.pattern._orders import adjacency, reordered
from porism.theory.pattern._sklearn import difference, matrix_of, not_fitted, parameters
from porism.theory.pattern._spec import parse_mask
from porism.theory.pattern.distance import pattern_distance
from porism.theory.pattern.mask import Mask

__all__ = ["PatternReorder"]


class PatternReorder:
    """Reorder rows and columns so that a matrix shows a pattern; an estimator of scikit-learn's kind.

    Parameters
    ----------
    mask : Mask, array_like (m, n), str, or callable (m, n) -> Mask, default "block_diagonal:2"
        The pattern. A text such as "band:4" or "block_diagonal:3" (three blocks as equal as they can be) and
        a callable fit matrices of any shape; a lambda cannot be pickled, a function of a module can.
    order : {"independent", "common", "none"}
        Rows and columns move freely, together, or not at all.
    mass : {"squared", "abs"}
        Mass of an entry.
    n_restarts, exact, time_budget
        As in :func:`pattern_distance`.
    random_state : int, Generator or None
        Seed.

    Attributes
    ----------
    row_order_, column_order_ : int64 arrays, shapes (m,) and (n,)
        Source row and column at each position.
    mass_outside_, lower_bound_ : float
        Value found and a bound below which no orders get.
    n_iter_ : int
        Sweeps that led to it, at least 1.
    row_labels_, column_labels_ : int64 arrays, shapes (m,) and (n,)
        Block of each source row and column; for other masks, its class of equal mask rows (columns).
    rows_, columns_ : bool arrays, shapes (K, m) and (K, n)
        Members of each bicluster, one a label that rows and columns share, as scikit-learn's
        biclustering estimators have them.
    fit_ : PatternFit
        The whole result.
    n_features_in_ : int
        Columns seen in `fit`; `feature_names_in_` too, where X has names that are all strings.

    Notes
    -----
    Rows are part of the pattern, so that `transform` takes matrices of the shape that was fitted and not
    samples one by one; it permutes them and computes nothing from them. NaN is refused; sparse matrices are
    accepted and stay sparse.

    Examples
    --------
    >>> A = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    >>> PatternReorder("block_diagonal:2", random_state=0).fit_transform(A)[0, :2].tolist()
    [1, 1]
    """

    def __init__(
        self,
        mask: Mask | ArrayLike | str | Callable[[int, int], Mask] = "block_diagonal:2",
        order: str = "independent",
        *,
        mass: str = "squared",
        n_restarts: int | str = "auto",
        exact: bool | str = "auto",
        time_budget: float | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.mask = mask
        self.order = order
        self.mass = mass
        self.n_restarts = n_restarts
        self.exact = exact
        self.time_budget = time_budget
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Find the orders.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse or networkx graph, shape (m, n)
            Matrix, finite, not zero.
        y : ignored
            Takes part in nothing.

        Returns
        -------
        PatternReorder
            Itself.

        Raises
        ------
        TypeError, ValueError
            As :func:`pattern_distance` does, or if X is one-dimensional or empty.
        """
        matrix, names = matrix_of(X)
        m, n = matrix.shape
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = n
        mask = self.mask
        if isinstance(mask, str):
            try:
                mask = parse_mask(mask, m, n)
            except ValueError as error:
                raise ValueError(f"{error} (n_samples = {m}, n_features = {n})") from None
        elif callable(mask) and not isinstance(mask, Mask):
            mask = mask(m, n)
        fit = pattern_distance(
            matrix,
            mask,
            order=self.order,
            mass=self.mass,
            n_restarts=self.n_restarts,
            exact=self.exact,
            time_budget=self.time_budget,
            random_state=self.random_state,
        )
        self.fit_ = fit
        self.row_order_, self.column_order_ = fit.row_order, fit.col_order
        self.mass_outside_, self.lower_bound_ = fit.mass_outside, fit.lower_bound
        self.n_iter_ = max(1, fit.n_sweeps)
        self.row_labels_, self.column_labels_ = fit.labels()
        shared = np.intersect1d(self.row_labels_, self.column_labels_)
        self.rows_ = self.row_labels_ == shared[:, None]
        self.columns_ = self.column_labels_ == shared[:, None]
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Put a matrix into the order found.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse or networkx graph, shape (m, n)
            Matrix of the shape that was fitted.

        Returns
        -------
        array or sparse matrix, shape (m, n)
            ``X[row_order_][:, column_order_]``.

        Raises
        ------
        ValueError
            If the estimator is not fitted (NotFittedError where scikit-learn is installed) or X has
            another shape.
        """
        return reordered(self._checked(X), self.row_order_, self.column_order_)

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Undo `transform`.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse or networkx graph, shape (m, n)
            Matrix in the order found.

        Returns
        -------
        array or sparse matrix, shape (m, n)
            Matrix in source order.

        Raises
        ------
        ValueError
            As `transform` does.
        """
        matrix = self._checked(X, named=False)
        return reordered(matrix, np.argsort(self.row_order_), np.argsort(self.column_order_))

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Any:
        """Find the orders and apply them.

        Parameters
        ----------
        X : array_like, DataFrame, SciPy sparse or networkx graph, shape (m, n)
            Matrix.
        y : ignored
            Takes part in nothing.

        Returns
        -------
        array or sparse matrix, shape (m, n)
            The reordered matrix.
        """
        return self.fit(X, y).transform(X)

    @property
    def biclusters_(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The pair (`rows_`, `columns_`)."""
        return self.rows_, self.columns_

    def get_indices(self, i: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Source rows and columns of a bicluster.

        Parameters
        ----------
        i : int
            Its number.

        Returns
        -------
        (int array, int array)
            Row and column indices.
        """
        return np.flatnonzero(self.rows_[i]), np.flatnonzero(self.columns_[i])

    def get_shape(self, i: int) -> tuple[int, int]:
        """Numbers of rows and columns of a bicluster.

        Parameters
        ----------
        i : int
            Its number.

        Returns
        -------
        (int, int)
            Rows and columns.
        """
        rows, columns = self.get_indices(i)
        return len(rows), len(columns)

    def get_submatrix(self, i: int, data: ArrayLike) -> Any:
        """Part of a matrix that belongs to a bicluster.

        Parameters
        ----------
        i : int
            Its number.
        data : array_like, SciPy sparse or networkx graph, shape (m, n)
            Matrix in source order.

        Returns
        -------
        array or sparse matrix
            The rows and columns of `get_indices`.
        """
        data = adjacency(data)
        return reordered(data if hasattr(data, "tocsr") else np.asarray(data), *self.get_indices(i))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor.

        Parameters
        ----------
        deep : bool, default True
            Ignored: no parameter is an estimator.

        Returns
        -------
        dict
            By name.
        """
        return {name: getattr(self, name) for name in parameters(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the constructor.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        PatternReorder
            Itself.

        Raises
        ------
        ValueError
            If a name is unknown.
        """
        known = parameters(type(self))
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}; it has "
                    f"{', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = []
        for name, default in parameters(type(self)).items():
            value = getattr(self, name)
            if repr(value) != repr(default):
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        tags = require("sklearn.utils", "data")
        return tags.Tags(
            estimator_type=None,
            target_tags=tags.TargetTags(required=False),
            transformer_tags=tags.TransformerTags(preserves_dtype=[]),
            input_tags=tags.InputTags(sparse=True),
        )

    def _checked(self, X: Any, named: bool = True) -> Any:
        if not hasattr(self, "fit_"):
            raise not_fitted(type(self).__name__)
        X, names = matrix_of(X)
        known = getattr(self, "feature_names_in_", None)
        if named and names is not None and known is not None and not np.array_equal(names, known):
            raise ValueError(
                "The feature names should match those that were passed during fit.\n"
                + difference(known, names)
            )
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input; pass a matrix of the shape fitted"
            )
        if X.shape[0] != len(self.row_order_):
            raise ValueError(
                f"X has {X.shape[0]} rows, but {type(self).__name__} was fitted on {len(self.row_order_)}: "
                "rows are part of the pattern; pass a matrix of the shape fitted"
            )
        values = X.data if hasattr(X, "tocsr") else X
        if not np.isfinite(values).all():
            raise ValueError("X contains NaN or infinity; drop or replace such values, as for fit")
        return X
