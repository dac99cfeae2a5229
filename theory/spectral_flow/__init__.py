"""Spectral gradient flow in matrix factorisation: when modes arrive, in which order, and how fast at most.

The loss is ``|Y - B A|_F^2 / 2``, with a ridge ``ridge (|A|_F^2 + |B|_F^2) / 2`` where one is given, and
every update is orthogonalised: ``G (G'G + smoothing^2)^(-1/2)``.
"""

from porism.theory.spectral_flow.arrival import (
    gradient_flow_arrival_time,
    gradient_flow_singular_value,
    ideal_arrival_time,
    spectral_flow_arrival_time,
)
from porism.theory.spectral_flow.bounds import Bounds, smoothing_delay, spectral_flow_arrival_bounds
from porism.theory.spectral_flow.discrete import discrete_arrival_step, discrete_floor
from porism.theory.spectral_flow.matrices import local_decay_rate, soft_threshold_target, speed_limit
from porism.theory.spectral_flow.order import OrderCertificate, certify_arrival_order, critical_smoothing

__all__ = [
    "Bounds",
    "OrderCertificate",
    "certify_arrival_order",
    "critical_smoothing",
    "discrete_arrival_step",
    "discrete_floor",
    "gradient_flow_arrival_time",
    "gradient_flow_singular_value",
    "ideal_arrival_time",
    "local_decay_rate",
    "smoothing_delay",
    "soft_threshold_target",
    "spectral_flow_arrival_bounds",
    "spectral_flow_arrival_time",
    "speed_limit",
]
