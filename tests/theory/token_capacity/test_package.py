"""The package loads without torch, and has the names that were promised."""

import subprocess
import sys

from porism.theory import token_capacity

PROMISED = (
    "HiddenStateMoments capacity_bound choose_positions coverage effective_rank interchange_bound "
    "logdet_capacity min_positions position_ntk prefix_count"
)


def test_import_is_light_and_silent(tmp_path):
    heavy = {"torch", "transformers", "peft", "sympy", "numba", "matplotlib", "pandas", "sklearn"}
    code = (
        "import sys, porism.theory.token_capacity, porism.theory.token_capacity.symbolic;"
        f"sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


def test_names():
    assert set(PROMISED.split()) <= set(token_capacity.__all__)
    assert token_capacity.__all__ == sorted(token_capacity.__all__)
    assert all(callable(getattr(token_capacity, name)) for name in token_capacity.__all__)
