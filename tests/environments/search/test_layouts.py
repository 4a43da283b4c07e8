"""Rows of question sets as they are published, and what is wrong said with its place."""

import json

import pytest

from retrograde.environments.search.layouts import (
    Passage,
    RowError,
    asked_in,
    layout_of,
    passages_in,
    rows_of,
)

HOTPOTQA = {
    "_id": "5a8b57f25542995d1e6f1371",
    "answer": "yes",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0]],
    "context": [
        ["Scott Derrickson", ["Scott Derrickson is an American director.", " He lives in LA."]],
        ["Ed Wood", ["Ed Wood was an American filmmaker."]],
    ],
    "type": "comparison",
    "level": "hard",
}
HOTPOTQA_HUB = {
    **{name: HOTPOTQA[name] for name in ("answer", "question", "type", "level")},
    "id": HOTPOTQA["_id"],
    "supporting_facts": {"title": ["Scott Derrickson", "Ed Wood"], "sent_id": [0, 0]},
    "context": {
        "title": ["Scott Derrickson", "Ed Wood"],
        "sentences": [text for _, text in HOTPOTQA["context"]],
    },
}
TWO_WIKI = {
    "_id": "8813f87c0bdd11eba7f7acde48001122",
    "type": "compositional",
    "question": "Who is the mother of the director of film Polish-Russian War (Film)?",
    "context": [["Polish-Russian War (film)", ["A 2009 film.", "Directed by Xawery Żuławski."]]],
    "supporting_facts": [["Polish-Russian War (film)", 1]],
    "evidences": [["Polish-Russian War", "director", "Xawery Żuławski"]],
    "answer": "Małgorzata Braunek",
}
TWO_WIKI_HUB = TWO_WIKI | {
    name: json.dumps(TWO_WIKI[name]) for name in ("context", "supporting_facts", "evidences")
}
MUSIQUE = {
    "id": "2hop__482757_12019",
    "paragraphs": [
        {"idx": 0, "title": "Green", "paragraph_text": "Green is an album.", "is_supporting": True},
        {"idx": 1, "title": "Steve", "paragraph_text": "Steve is a man.", "is_supporting": False},
    ],
    "question": "Who is the spouse of the Green performer?",
    "question_decomposition": [
        {"id": 1, "question": "Green >> performer", "answer": "Steve", "paragraph_support_idx": 0}
    ],
    "answer": "Miquette Giraudy",
    "answer_aliases": ["Miquette"],
    "answerable": True,
}
NQ = {"question": "where did they film hot tub time machine", "answer": ["Fernie Alpine Resort"]}
FLASHRAG = {
    "id": "train_0",
    "question": "total number of death row inmates in the us",
    "golden_answers": ["2,718", "2718"],
    "metadata": {},
}
TRIVIAQA = {
    "Answer": {
        "Aliases": ["Sunset Boulevard", "Sunset Bulevard"],
        "NormalizedAliases": ["sunset boulevard"],
        "NormalizedValue": "sunset boulevard",
        "Type": "WikipediaEntity",
        "Value": "Sunset Boulevard",
    },
    "EntityPages": [],
    "Question": "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
    "QuestionId": "tc_33",
    "QuestionSource": "http://www.triviacountry.com/",
}
TRIVIAQA_HUB = {
    "question": TRIVIAQA["Question"],
    "question_id": "tc_33",
    "answer": {
        "aliases": ["Sunset Boulevard", "Sunset Bulevard"],
        "normalized_aliases": ["sunset boulevard"],
        "value": "Sunset Boulevard",
    },
}
POPQA = {
    "id": 4222362,
    "subj": "George Rankin",
    "prop": "occupation",
    "obj": "politician",
    "question": "What is George Rankin's occupation?",
    "possible_answers": '["politician", "political leader"]',
}
PLAIN = {"question": "What is the capital of Peru?", "answer": "Lima"}
TWO = (
    Passage("Scott Derrickson is an American director. He lives in LA.", "Scott Derrickson"),
    Passage("Ed Wood was an American filmmaker.", "Ed Wood"),
)
FILM = (Passage("A 2009 film. Directed by Xawery Żuławski.", "Polish-Russian War (film)"),)
ALBUM = (Passage("Green is an album.", "Green"), Passage("Steve is a man.", "Steve"))

ROWS = [
    pytest.param(HOTPOTQA, "hotpotqa", ("yes",), TWO, id="hotpotqa"),
    pytest.param(HOTPOTQA_HUB, "hotpotqa", ("yes",), TWO, id="hotpotqa of the hub"),
    pytest.param(TWO_WIKI, "2wiki", ("Małgorzata Braunek",), FILM, id="2wiki"),
    pytest.param(TWO_WIKI_HUB, "2wiki", ("Małgorzata Braunek",), FILM, id="2wiki of the hub"),
    pytest.param(MUSIQUE, "musique", ("Miquette Giraudy", "Miquette"), ALBUM, id="musique"),
    pytest.param(NQ, "nq", ("Fernie Alpine Resort",), (), id="nq"),
    pytest.param(FLASHRAG, "plain", ("2,718", "2718"), (), id="flashrag"),
    pytest.param(TRIVIAQA, "triviaqa", ("Sunset Boulevard", "Sunset Bulevard"), (), id="triviaqa"),
    pytest.param(
        TRIVIAQA_HUB, "triviaqa", ("Sunset Boulevard", "Sunset Bulevard"), (), id="triviaqa of hub"
    ),
    pytest.param(POPQA, "popqa", ("politician", "political leader"), (), id="popqa"),
    pytest.param(PLAIN, "plain", ("Lima",), (), id="plain"),
    pytest.param(PLAIN | {"answers": ["Lima", "LIM"]}, "plain", ("Lima", "LIM"), (), id="answers"),
]


@pytest.mark.parametrize(("row", "layout", "golds", "passages"), ROWS)
def test_a_row_of_each_layout(tmp_path, row, layout, golds, passages):
    assert layout_of(row) == layout
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n\n")
    for named in ("auto", layout):
        (asked,) = asked_in(path, named)
        assert asked.question == row.get("question", row.get("Question"))
        assert (asked.golds, asked.passages) == (golds, passages)


def test_every_kind_of_file_holds_the_same_rows(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"question": "Capital of Peru?", "possible_answers": '["Lima"]'},
        {"question": "Capital of\tChile?", "possible_answers": '["Santiago"]'},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "data.json").write_text(json.dumps({"Data": rows, "Version": 1}))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for suffix, between in ((".tsv", "\t"), (".csv", ",")):
        lines = [("question", "possible_answers"), *(tuple(row.values()) for row in rows)]
        quoted = [between.join('"' + cell.replace('"', '""') + '"' for cell in li) for li in lines]
        (tmp_path / f"a{suffix}").write_text("\n".join(quoted))
    read = {path.name: list(rows_of(path)) for path in tmp_path.iterdir()}
    assert len(read) == 6
    assert all(found == rows for found in read.values()), read
    assert [a.golds for a in asked_in(tmp_path / "a.tsv", "auto")] == [("Lima",), ("Santiago",)]


def test_questions_that_musique_marks_as_without_answer_are_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(MUSIQUE | {"answerable": False}) + "\n" + json.dumps(MUSIQUE))
    assert len(asked_in(path, "musique")) == 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (PLAIN | {"question": ""}, r"row 2 \(read as plain\): question: words are needed, got ''"),
        ({"answer": "Lima"}, r"row 2 \(read as plain\): question: words are needed, got None"),
        ({"question": "Q?"}, r"row 2 \(read as plain\): answer: a list of words .* got None"),
        (NQ | {"answer": []}, r"row 2 \(read as nq\): answer: a list of words is needed, got \[\]"),
        (NQ | {"answer": [3]}, r"row 2 .*answer: words are needed in the list, got 3"),
        ({k: v for k, v in HOTPOTQA.items() if k != "answer"}, r"row 2 .*answer: .* got None"),
        (HOTPOTQA | {"context": [["title"]]}, r"row 2 .*context: a title and sentences"),
        (HOTPOTQA | {"context": 3}, r"row 2 .*context: pairs"),
        (MUSIQUE | {"paragraphs": [{"title": "t"}]}, r"row 2 .*paragraph_text: words are needed"),
        (TRIVIAQA | {"Answer": {"Aliases": ["a"]}}, r"row 2 .*Value: words are needed"),
        (POPQA | {"possible_answers": "[oops"}, r"row 2 .*possible_answers: not JSON"),
        ("a string", r"row 2: an object is needed, got str"),
    ],
)
def test_what_is_wrong_is_said_with_row_and_field(tmp_path, row, problem):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(PLAIN) + "\n" + json.dumps(row))
    with pytest.raises(RowError, match=f"rows.jsonl, {problem}"):
        asked_in(path, "auto")


def test_a_file_that_is_no_such_file_is_refused(tmp_path):
    broken, text, empty = (tmp_path / name for name in ("a.jsonl", "a.txt", "b.jsonl"))
    broken.write_text('{"question": "Q?", "answer": "A"}\n{"question": ')
    with pytest.raises(RowError, match=r"a.jsonl, row 2: not JSON"):
        asked_in(broken, "auto")
    text.write_text("question")
    with pytest.raises(ValueError, match=r"a.txt: a file that ends in .jsonl, .json, .parquet"):
        asked_in(text, "auto")
    empty.write_text("\n")
    with pytest.raises(RowError, match="it holds no question"):
        asked_in(empty, "auto")
    with pytest.raises(RowError, match="it holds no passage"):
        passages_in(empty)
    (tmp_path / "c.json").write_text('{"a": 1}')
    with pytest.raises(RowError, match=r"c.json: an array of rows is needed"):
        asked_in(tmp_path / "c.json", "auto")


def test_passages_come_as_search_r1_keeps_them_or_with_a_title(tmp_path):
    path = tmp_path / "passages.jsonl"
    rows = [
        {"id": "0", "contents": '"Evan Morris"\nEvan Morris was a lobbyist.'},
        {"id": "1", "text": "Lima is in Peru.", "title": "Lima"},
        {"id": "2", "text": "No title."},
        {"id": "3", "contents": "One line."},
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert passages_in(path) == (
        Passage("Evan Morris was a lobbyist.", "Evan Morris"),
        Passage("Lima is in Peru.", "Lima"),
        Passage("No title."),
        Passage("One line."),
    )
    path.write_text(json.dumps(rows[0]) + '\n{"id": "9", "title": "t"}')
    with pytest.raises(RowError, match=r"passages.jsonl, row 2: text: words are needed, got None"):
        passages_in(path)
