"""Things of the user's own: found, or what is wrong with them is said in one line."""

import pytest

from retrograde.data.places import found_at


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ndef f(:\n", "line 2: SyntaxError: "),
        ("x = (\n", "line 1: SyntaxError: '(' was never closed"),
        ("\n\nimport nowhere_to_be_found\n", "line 3: ModuleNotFoundError: No module named 'nowh"),
        ("from json import nothing\n", "line 1: ImportError: cannot import name 'nothing'"),
        ("import os\nx = misspelt\n", "line 2: NameError: name 'misspelt' is not defined"),
        ("def f():\n    return None.x\nf()\n", "line 3: AttributeError: 'NoneType' object"),
    ],
)
def test_a_mistake_in_a_file_is_said_with_its_line(tmp_path, text, said):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(ValueError, match="cannot be loaded") as refused:
        found_at(f"{path}:X", "environment")
    message = str(refused.value)
    assert message.startswith(f"environment '{path}:X' cannot be loaded: {path}, {said}")
    assert "\n" not in message


def test_a_mistake_in_a_module_is_told_from_a_module_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_bad_module.py").write_text("import nowhere_to_be_found\n")
    with pytest.raises(ValueError, match=r"own_bad_module.py, line 1: ModuleNotFoundError"):
        found_at("own_bad_module:X", "reward")
    with pytest.raises(ValueError, match=r"known are f1, FILE\.py:NAME"):
        found_at("nowhere_to_be_found:X", "reward", "f1")


def test_a_file_that_is_mended_is_read_again(tmp_path):
    path = tmp_path / "own_mended.py"
    path.write_text("X = (\n")
    with pytest.raises(ValueError, match="SyntaxError"):
        found_at(f"{path}:X", "environment")
    path.write_text("X = 1\n")
    assert found_at(f"{path}:X", "environment") == 1
