"""What the papers prove: arrays in, frozen results out."""

from porism._lazy import submodules

__all__: list[str] = []

__getattr__ = submodules(__name__)
