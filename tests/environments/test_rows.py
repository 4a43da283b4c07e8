"""Tasks from files and from Python."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from retrograde.data.message import Message
from retrograde.environments.rows import check_apart, read_rows, rows_of, split_rows

ASKED = {"prompt": "What is 1 + 1?", "answer": 2}
VERL = {
    "data_source": "openai/gsm8k",
    "prompt": [{"content": "What is 1 + 1?", "role": "user"}],
    "ability": "math",
    "reward_model": {"style": "rule", "ground_truth": "2"},
    "extra_info": {"split": "train", "index": 0},
}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "c"},
    {"role": "user", "content": "d"},
]


def written(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_text_messages_and_columns_are_read(tmp_path):
    path = written(tmp_path / "tasks.jsonl", ASKED, {"prompt": "é?", "answer": None})
    first, second = read_rows(path)
    assert first.messages == (Message("user", "What is 1 + 1?", lasting=True),)
    assert (first.columns, first.where) == (ASKED, f"{path}, line 1")
    assert second.messages[0].content == "é?"
    (row,) = rows_of([{"messages": CHAT}])
    assert [m.role for m in row.messages] == ["system", "user", "assistant", "user"]
    assert row.messages[1].content == "ab"
    assert all(message.lasting for message in row.messages)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("row", [VERL, ASKED, {"prompt": CHAT[:1] + CHAT[3:], "level": 3}])
def test_the_layouts_of_verl_and_trl_are_read_as_they_are(tmp_path, suffix, row):
    path = tmp_path / f"train.{suffix}"
    rows = [row] * 3
    if suffix == "jsonl":
        written(path, *rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    read = read_rows(path)
    assert [dict(one.columns) for one in read] == rows
    assert [one.messages for one in read] == [rows_of([row])[0].messages] * 3
    assert len({one.identity for one in read}) == 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("[1]", "line 2: an object is needed, got a list"),
        ("{", "line 2: it is not JSON"),
        ('{"prompt": "x"}', r"line 2: columns differ .*: only one of the two has answer"),
        (
            '{"prompt": 3, "answer": 2}',
            "line 2, prompt: text or a list of messages is needed, got 3",
        ),
        ('{"prompt": [], "answer": 2}', "line 2, prompt: text or a list of messages"),
        (
            '{"prompt": ["x"], "answer": 2}',
            r"line 2, prompt\[0\]: a message is an object, got a str",
        ),
        (
            '{"prompt": [{"role": "human", "content": "x"}], "answer": 2}',
            r"line 2, prompt\[0\].role: needed is one of .*tool, got 'human'",
        ),
        ('{"prompt": [{"role": "user"}], "answer": 2}', r"prompt\[0\].content: it is missing"),
        ('{"prompt": [{"role": "user", "content": 3}], "answer": 2}', "content: text is needed"),
        (
            '{"prompt": [{"role": "user", "content": [{"type": "image"}]}], "answer": 2}',
            r"content\[0\]: only parts of text can be read",
        ),
        ('{"prompt": [{"role": "system", "content": "x"}], "answer": 2}', "must be the user's"),
        (
            json.dumps({"prompt": [CHAT[3], CHAT[0], CHAT[3]], "answer": 2}),
            "only the first message may be the system's",
        ),
        (
            '{"prompt": [{"role": "assistant", "content": "x", "tool_calls": [{}]}], "answer": 2}',
            "tool_calls: calls in a prompt cannot be rendered",
        ),
        ('{"prompt": "\\ud800", "answer": 2}', "line 2, prompt: it holds what is no character"),
    ],
)
def test_a_wrong_row_is_named_with_its_field(tmp_path, row, problem):
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(ASKED)}\n{row}\n")
    with pytest.raises(ValueError, match=problem):
        read_rows(path)


def test_bytes_that_are_no_text_are_named_with_their_row(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(json.dumps(ASKED).encode() + b'\n\n{"prompt": "\xff", "answer": 2}\n')
    with pytest.raises(ValueError, match="line 3: it is not UTF-8"):
        read_rows(path)
    strings = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )
    pq.write_table(pa.table({"prompt": strings}), tmp_path / "tasks.parquet")
    with pytest.raises(ValueError, match="row 2, prompt: it is not UTF-8"):
        read_rows(tmp_path / "tasks.parquet")


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "bad.parquet").write_text("nonsense")
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    for name, problem in {
        "empty.jsonl": "it is empty",
        "empty.parquet": "it is empty",
        "bad.parquet": "it cannot be read as parquet",
        "none.jsonl": "there is no such file",
        "tasks.csv": "a .jsonl or .parquet file is needed",
    }.items():
        with pytest.raises(ValueError, match=f"{name}: {problem}"):
            read_rows(tmp_path / name)


def test_the_column_that_begins_an_episode_can_be_named():
    row = {"question": "1 + 1?", "answer": 2}
    with pytest.raises(ValueError, match="task 0: there is no column messages or prompt"):
        rows_of([row])
    assert rows_of([row], "question")[0].messages[0].content == "1 + 1?"
    assert rows_of([row], optional=True)[0].messages == ()
    with pytest.raises(ValueError, match="no column task"):
        rows_of([row], "task", optional=True)


def test_rows_are_split_by_what_they_are():
    rows = rows_of([{"prompt": str(i % 500)} for i in range(1000)])
    train, test = split_rows(rows, 0.2)
    assert len(train) + len(test) == 1000
    assert not {r.identity for r in train} & {r.identity for r in test}
    # 500 draws at 0.2: 100 expected, 9 is one standard deviation.
    assert 2 * 70 < len(test) < 2 * 130
    # A row stays where it is when there are others.
    fewer, _ = split_rows(rows[:300], 0.2)
    assert {r.identity for r in fewer} == {r.identity for r in rows[:300]} & {
        r.identity for r in train
    }


def test_one_row_is_always_held_out_and_one_trained_on():
    rows = rows_of([{"prompt": str(i)} for i in range(3)])
    train, test = split_rows(rows, 0.0)
    assert (len(train), len(test)) == (2, 1)
    with pytest.raises(ValueError, match="all 1 rows would be held out"):
        split_rows(rows[:1], 0.1)


def test_held_out_rows_are_not_trained_on():
    rows = rows_of([{"prompt": str(i)} for i in range(3)])
    check_apart(rows[:2], rows[2:])
    with pytest.raises(ValueError, match="task 1 is held out and is also trained on: task 1"):
        check_apart(rows, rows[1:2])


def test_many_rows_take_one_pass(tmp_path):
    # Reading is one step a row: a quadratic reader would need a minute for these.
    path = written(tmp_path / "many.jsonl", *({"prompt": str(i), "n": i} for i in range(20_000)))
    rows = read_rows(path)
    assert len(rows) == 20_000
    assert rows[-1].where == f"{path}, line 20000"
    assert sum(len(part) for part in split_rows(rows, 0.1)) == 20_000
