"""`--environment tools`, from files to a checkpoint and back."""

import json

import pytest

CODE = '''
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def reward(record):
    return float(record.said is not None)
'''


@pytest.fixture
def files(place):
    rows = [{"prompt": f"What is {i} + 1?", "answer": i + 1} for i in range(20)]
    (place / "tasks.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (place / "own.py").write_text(CODE)
    return ["--environment.tasks", "tasks.jsonl", "--environment.functions", "own.py:add"]


def train(retrograde, model, files, *more):
    words = ["--environment", "tools", "--algorithm", "grpo", "--model", model, *files]
    short = [
        "--environment.max-new-tokens",
        "8",
        "--steps",
        "1",
        "--prompts",
        "2",
        "--eval-episodes",
        "2",
        "--out",
        "run",
    ]
    return retrograde("train", *words, *short, "--environment.max-turns", "2", *more)


def test_a_run_is_made_resumed_and_evaluated(retrograde, stranger, files, place):
    done = train(retrograde, stranger, files, "--environment.reward", "own.py:reward")
    assert done.code == 0, done.err
    settings = json.loads((place / "run/manifest.json").read_text())["settings"]
    stored = settings["environment_settings"]
    assert (stored["tasks"], stored["functions"]) == ("tasks.jsonl", "own.py:add")
    more = retrograde("train", "--resume", "--out", "run", "--steps", "2")
    assert more.code == 0, more.err
    last = max((place / "run/checkpoints").iterdir())
    # The options come from the run.
    again = retrograde("evaluate", last, "--environment", "tools", "--json")
    assert again.code == 0, again.err
    assert 0 <= json.loads(again.out)["eval/success"] <= 1


def test_a_run_is_not_resumed_with_other_tasks_or_tools(retrograde, stranger, files, place):
    assert train(retrograde, stranger, files).code == 0
    (place / "own.py").write_text(CODE.replace("a + b", "a - b"))
    other = retrograde("train", "--resume", "--out", "run", "--steps", "2")
    assert other.code == 2
    assert "environment_settings.contents.code" in other.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--environment.tasks none.jsonl", "none.jsonl: there is no such file"),
        ("--environment.functions own.py:sub", "functions 'own.py:sub': there is no 'sub'"),
        ("--environment.mcp no-such-command", "MCP server 'no-such-command'"),
        ("--algorithm rtpo", "rtpo cannot run on the environment tools"),
        ("--model embedded", "the environment tools has no teacher"),
    ],
)
def test_bad_input_is_named_before_any_work(retrograde, stranger, files, place, words, problem):
    said = train(retrograde, stranger, files, *words.split())
    assert said.code == 2
    assert problem in said.err
    assert not (place / "run").exists()
