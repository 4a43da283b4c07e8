import json
from dataclasses import replace

import pytest

from retrograde.data.rows import Row
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn
from retrograde.data.wire import group_from_json, group_to_json, row_from_list, row_to_list

GROUP = Group(
    "hop/7",
    (
        Tree(
            (
                Turn(ROOT_PARENT, 0, (1, 2), (1, 2), (3,), (-0.1 - 0.2,), 0, 5),
                Turn(0, 2, (8,), (8, 9), (4, 5), (-1e-300, -1 / 3), 1, 6, 0.1, None),
                Turn(0, 3, (), (8,), (6,), (-0.4,), 1, 6, 0.0, End.MERGED, 1),
                Turn(1, 0, (7,), (7,), (6,), (0.0,), 1, 6, 1.0, End.FINISHED),
            )
        ),
        Tree((Turn(ROOT_PARENT, 0, (1,), (1,), (3,), (-0.5,), 0, 5, 0.0, End.FAILED),)),
    ),
)


def test_a_group_reads_back_the_same():
    line = group_to_json(GROUP)
    assert "\n" not in line
    assert group_from_json(line) == GROUP


def test_another_format_is_refused():
    record = json.loads(group_to_json(GROUP)) | {"format": 99}
    with pytest.raises(ValueError, match="99"):
        group_from_json(json.dumps(record))


def test_what_breaks_an_invariant_of_trees_is_refused():
    record = json.loads(group_to_json(GROUP))
    record["trees"][0][3]["end"] = None
    with pytest.raises(ValueError, match="leaf without an end"):
        group_from_json(json.dumps(record))


def test_a_row_reads_back_the_same():
    row = Row((1, 2), (3, 4), (-0.1 - 0.2, -1 / 3), 0.1, 3, 2, (6, 2, 1, 9))
    assert row_from_list(json.loads(json.dumps(row_to_list(row)))) == row
    full = replace(row, clip_scale=0.7, target=(0.1, 0.2), values=(0.3,), entropies=(0.5, 0.25))
    assert row_from_list(json.loads(json.dumps(row_to_list(full)))) == full
