"""Flows in the plane: the phase plane of any two equations, and skill under delegation to an AI."""

from porism.theory.dynamics.delegation import LAWS, DelegationModel
from porism.theory.dynamics.orbits import Orbit, Separatrix
from porism.theory.dynamics.phase_plane import Equilibrium, PhasePlane, classify

__all__ = [
    "LAWS",
    "DelegationModel",
    "Equilibrium",
    "Orbit",
    "PhasePlane",
    "Separatrix",
    "classify",
]
