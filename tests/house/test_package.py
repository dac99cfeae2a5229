"""What is shipped, what is promised in the texts, and that no file tells of the machine it came from."""

import re
import shutil
import statistics
import subprocess
import sys
import zipfile

import pytest

FOLDERS = ("porism", "theory", "sims", "kernels")
TEXTS = (".py", ".md", ".toml", ".txt", ".ipynb", ".cfg", ".json", ".csv", ".html", "")


def own_files(root):
    for folder in (*FOLDERS, "notebooks", "tests", ".ci"):
        yield from (
            path for path in (root / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts
        )
    yield from (path for path in root.iterdir() if path.is_file() and path.name != ".git")


def test_packages_listed_are_the_folders_on_disk(root):
    import tomllib

    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = set()
    for folder in FOLDERS:
        for path in (root / folder).rglob("__init__.py"):
            name = ".".join(path.parent.relative_to(root).parts)
            found.add(name if folder == "porism" else f"porism.{name}")
    assert set(listed) == found
    assert listed == sorted(listed)


@pytest.mark.full
def test_wheel_holds_only_porism(root, tmp_path):
    source = tmp_path / "source"
    for folder in FOLDERS:
        shutil.copytree(root / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--quiet",
        "-w",
        tmp_path,
        source,
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"porism", wheel.name.split("-py3")[0] + ".dist-info"}
    shipped = {name for name in names if name.endswith(".py")}
    assert len(shipped) == sum(len(list((root / folder).rglob("*.py"))) for folder in FOLDERS)
    assert "porism/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_texts_name_only_what_exists(root):
    from porism.cli import app

    text = "\n".join((root / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    targets = set(re.findall(r"^(\w[\w-]*):", (root / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z][\w-]*)", code)) <= targets
    verbs = {command.name for command in (*app.registered_commands, *app.registered_groups)}
    assert set(re.findall(r"(?:^|[`\s])porism ([a-z]\w*)", code)) <= verbs
    assert {"setup", "reproduce", "test", "lint", "types", "notebooks", "bench"} <= targets


def test_no_traces_of_a_machine(root):
    trace = re.compile(r"/(?:home|Users)/\w+|/root\b|/tmp/\w+|[\w.]+@[\w.-]+\.(?:com|org|net|edu|io)\b")
    allowed = re.compile(r"LICENSE|test_package\.py")
    found = [
        f"{path.relative_to(root)}: {match[0]}"
        for path in own_files(root)
        if path.suffix in TEXTS and not allowed.search(path.name)
        if (match := trace.search(path.read_text(errors="ignore")))
    ]
    assert found == []


def test_no_test_skips_what_is_missing(root):
    """The fixture `needs` fails in the full job, where pytest's own would hide a missing dependency."""
    word = "import" + "orskip"
    assert [path.name for path in (root / "tests").rglob("*.py") if word in path.read_text()] == []


def test_python_files_are_short(root):
    sizes = {path: len(path.read_text().splitlines()) for path in own_files(root) if path.suffix == ".py"}
    assert {path.name: size for path, size in sizes.items() if size > 500} == {}
    assert statistics.median(size for path, size in sizes.items() if size) <= 200


def test_a_module_is_found_by_its_one_name(root):
    """On every floor, in the tests of every floor, and as a notebook."""
    from porism import sims
    from porism.cli.notebooks import find, module_of

    shown = {module_of(name) for name in find()}
    for module in sims.modules():
        for floor in ("theory", "sims"):
            assert (root / floor / module / "__init__.py").exists(), (floor, module)
            assert (root / "tests" / floor / module).is_dir(), (floor, module)
        assert (root / "tests" / "benchmarks" / f"test_{module}.py").exists(), module
        assert module in shown
