"""Imports run one way, and importing costs nothing."""

import ast
import subprocess
import sys

import pytest

FLOORS = ("base", "kernels", "theory", "sims", "cli")
HEAVY = {
    "torch",
    "triton",
    "matplotlib",
    "transformers",
    "numba",
    "pandas",
    "pyarrow",
    "sklearn",
    "sympy",
    "joblib",
}


def floor(module):
    """Where a module of the package stands, 0 at the bottom."""
    if module == "porism.__main__":
        return FLOORS.index("cli")
    part = module.split(".")[1] if "." in module else "base"
    return FLOORS.index(part) if part in FLOORS else 0


def imported(tree):
    """Every module that a file imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "porism")


def files(root):
    for folder, package in {"porism": "porism", "kernels": "", "theory": "", "sims": ""}.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield path, ".".join(part for part in ("porism" if not package else None, *parts) if part)


def test_floors_are_told_apart():
    names = [
        "porism.claims",
        "porism.kernels.coalition",
        "porism.theory.partition",
        "porism.sims",
        "porism.cli.claims",
    ]
    assert [floor(name) for name in names] == [0, 1, 2, 3, 4]


def test_no_import_runs_upwards(root):
    seen, wrong = 0, []
    for path, module in files(root):
        for name in imported(ast.parse(path.read_text())):
            top = name.split(".")[0]
            assert top not in ("kernels", "theory", "sims"), (
                f"{path.name} imports {name}; write porism.{name}"
            )
            if top == "porism":
                seen += 1
                if floor(name) > floor(module):
                    wrong.append(f"{module} imports {name}")
    assert not wrong
    assert seen > 20


def test_no_package_reaches_into_another(root):
    """What begins with an underscore is for its own package; that of the base is for every floor."""
    wrong = []
    for path, module in files(root):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("porism."):
                for alias in node.names:
                    parts = f"{node.module}.{alias.name}".split(".")
                    private = next((i for i, part in enumerate(parts) if part.startswith("_")), 1)
                    package = ".".join(parts[: min(private, 3)])  # such as porism.theory.pattern
                    if private > 1 and not f"{module}.".startswith(f"{package}."):
                        wrong.append(f"{module} imports {'.'.join(parts)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "modules",
    [
        "porism",
        "porism.claims, porism.results",
        "porism.theory.partition, porism.sims.partition",
        "porism.cli",
    ],
)
def test_import_is_light_and_silent(modules, tmp_path):
    heavy = HEAVY | {"numpy", "scipy"} if modules == "porism" else HEAVY
    code = f"import sys, {modules}; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)


def test_subpackages_come_on_first_use(tmp_path):
    code = "import porism; porism.theory.partition.UtilityTable; porism.sims.partition; porism.claims.run"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0


def test_unknown_attribute_is_named():
    import porism

    with pytest.raises(AttributeError, match="no attribute 'theories'; it has"):
        porism.theories  # noqa: B018


@pytest.mark.full
def test_transformers_imports_from_the_checkout(needs, root):
    """It probes for a package `kernels`, and in the checkout finds our folder of that name."""
    needs("transformers")
    code = "from transformers import BertConfig, BertModel; BertModel"
    subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", code], cwd=root, check=True, capture_output=True
    )
