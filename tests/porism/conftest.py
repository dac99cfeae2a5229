import pytest

from porism.cli import main


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Run the command line in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([*map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run
