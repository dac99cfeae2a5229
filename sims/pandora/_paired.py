"""The check that a fit belongs to a matrix."""

from porism.sims.pandora.matrix import ScoreMatrix
from porism.theory.pandora import FittedRouter


def same_shape(matrix: ScoreMatrix, fitted: FittedRouter) -> None:
    """Refuse a fit that was made from another matrix."""
    if fitted.m_hat.shape != matrix.scores.shape:
        raise ValueError(
            f"fitted has estimates of shape {fitted.m_hat.shape}, matrix scores of shape "
            f"{matrix.scores.shape}; fit this matrix with cross_fit"
        )
