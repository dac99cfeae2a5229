"""Array operations worth a kernel: one folder an operation."""

from porism._lazy import submodules

__all__: list[str] = []

__getattr__ = submodules(__name__)
