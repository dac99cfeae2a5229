"""What the figures of the pandora module share: axes, panels, legends, and the looks of policies."""

from porism.sims.drawing import GUIDE, LOOKS, Rng, canvas, is_paper, legend, panels
from porism.sims.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY

__all__ = ["GUIDE", "LOOKS", "POLICY_LOOKS", "Rng", "canvas", "is_paper", "legend", "panels"]

POLICY_LOOKS = {
    "kg_joint": (GREEN, "s", "-", "one-step, joint"),
    "kg_sigma": (BLUE, "o", "-", "by index, independent"),
    "kg": (SKY, "^", "--", "one-step, independent"),
    "threshold refined": (ORANGE, "D", "--", "margin, among refined"),
    "threshold all": (RED, "v", ":", "margin, among all"),
    "random joint": (PURPLE, "P", "-.", "random, joint"),
    "random": (GREY, "X", ":", "random"),
    "cheap": (GREY, "X", ":", "cheap"),
}
"""Colour, marker, dash and name of each rule: the same in every panel."""
