"""Recorders for other valuation libraries: their coalitions and scores become utility tables.

None of these modules imports its library before it is used, and all run in that library's own
environment with porism installed by ``pip install --no-deps`` (numpy 1.26 is enough):

- :mod:`porism.sims.partition.adapters.pydvl`: wrap a pyDVL utility;
- :mod:`porism.sims.partition.adapters.opendataval`: listen to an OpenDataVal sampler or evaluator;
- :mod:`porism.sims.partition.adapters.shapiq`: read a shapiq game, or listen to it.
"""

__all__: list[str] = []
