"""Worlds of skill and delegation: many people at once, with the model's rates or with rates of one's own."""

from porism.sims.dynamics.worlds import asymmetric_ends, count_low, draw_models, runge_kutta, vector_field

__all__ = ["asymmetric_ends", "count_low", "draw_models", "runge_kutta", "vector_field"]
