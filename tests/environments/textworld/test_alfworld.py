"""ALFWorld's games: finding them, naming what is in them, and playing one.

The games themselves have to be downloaded. What is played here is a game of the same format with a
domain and a grammar of our own; `textworld[pddl]` is needed for it, and it is skipped without.
"""

import json

import pytest

from retrograde.data.tree import End
from retrograde.environments.extras import MissingExtraError
from retrograde.environments.textworld import alfworld
from retrograde.environments.textworld.alfworld import names_of
from retrograde.environments.textworld.environment import TextWorld

DOMAIN = """
(define (domain kitchen)
 (:requirements :adl :action-costs :typing)
 (:types agent location receptacle object)
 (:predicates (at ?a - agent ?l - location) (stands ?r - receptacle ?l - location)
  (in ?o - object ?r - receptacle) (holds ?a - agent ?o - object))
 (:functions (total-cost) - number)
 (:action GotoLocation
  :parameters (?a - agent ?from - location ?to - location ?r - receptacle)
  :precondition (and (at ?a ?from) (stands ?r ?to))
  :effect (and (not (at ?a ?from)) (at ?a ?to) (increase (total-cost) 1)))
 (:action PickupObject
  :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (in ?o ?r))
  :effect (and (not (in ?o ?r)) (holds ?a ?o) (increase (total-cost) 1))))
"""
GRAMMAR = '''
grammar :: """
 {"intro": [{"rhs": "-= Welcome =-\\n\\nYou see a shelf.\\n\\nYour task is to: take the apple."}],
  "went": [{"rhs": "You arrive at {r.name}."}],
  "took": [{"rhs": "You pick up the {o.name}."}]}
""";
action GotoLocation { template :: "go to {r}"; feedback :: "#went#"; }
action PickupObject { template :: "take {o} from {r}"; feedback :: "#took#"; }
'''
PROBLEM = """
(define (problem one) (:domain kitchen)
 (:objects me - agent loc_0 loc_1 - location
  apple_bar__plus_00 - object shelf_bar__minus_01 shelf_bar__plus_02 - receptacle)
 (:init (= (total-cost) 0) (at me loc_0) (stands shelf_bar__minus_01 loc_0)
  (stands shelf_bar__plus_02 loc_1) (in apple_bar__plus_00 shelf_bar__plus_02))
 (:goal (exists (?a - agent) (holds ?a apple_bar__plus_00)))
 (:metric minimize (total-cost)))
"""


def game(folder, name, *, solvable=True):
    place = folder / name / "trial"
    place.mkdir(parents=True)
    words = {"pddl_domain": DOMAIN, "grammar": GRAMMAR, "pddl_problem": PROBLEM}
    (place / "game.tw-pddl").write_text(json.dumps({**words, "solvable": solvable}))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder such as alfworld-download leaves behind."""
    folder = tmp_path / "json_2.1.1"
    for name in ("pick-2", "pick-1", "pick-movable", "pick-Sliced"):
        game(folder / "train", name)
    game(folder / "train", "pick-3", solvable=False)
    game(folder / "valid_seen", "heat-1")
    for name in ("cool-1", "cool-2", "cool-3"):
        game(folder / "valid_unseen", name)
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    return folder


@pytest.fixture
def planner(monkeypatch):
    """Finding games needs no planner."""
    monkeypatch.setattr(alfworld, "find_spec", lambda name: name)


def test_without_its_games_it_says_how_to_get_them(monkeypatch, tmp_path):
    how = "pip install alfworld && alfworld-download && export ALFWORLD_DATA="
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(ValueError, match=f"ALFWORLD_DATA is not set; get it by: {how}"):
        TextWorld(kind="alfworld")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=rf"no json_2.1.1 in it; get it by: {how}"):
        TextWorld(kind="alfworld")


@pytest.mark.usefixtures("data")
def test_without_the_planner_it_names_the_command(monkeypatch):
    monkeypatch.setattr(alfworld, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'textworld\[pddl\]'"):
        TextWorld(kind="alfworld")


@pytest.mark.usefixtures("planner")
def test_solvable_games_are_found_in_the_order_of_their_paths(data):
    environment = TextWorld(kind="alfworld")
    assert (environment.size("train"), environment.size("test")) == (2, 3)
    assert TextWorld(kind="alfworld", alfworld_test="valid_seen").size("test") == 1
    found = alfworld.game_files("train", "valid_seen")
    assert [path.parts[-3] for path in found] == ["pick-1", "pick-2"]
    with pytest.raises(ValueError, match="textworld has 2 train tasks: no train-2"):
        environment.task("train", 2)


@pytest.mark.usefixtures("planner")
def test_a_set_without_games_is_refused(data):
    for path in (data / "valid_seen").rglob("game.tw-pddl"):
        path.unlink()
    with pytest.raises(ValueError, match=r"no solvable game\.tw-pddl is in"):
        TextWorld(kind="alfworld", alfworld_test="valid_seen").size("test")


def test_things_are_named_by_sort_and_number():
    # Of the cabinets, the first by id has the highest number; a sink's basin is a thing of its own.
    assert names_of(
        [
            "cabinet_bar__plus_00_dot_10",
            "cabinet_bar__minus_00_dot_58",
            "sink_bar__minus_02_bar_sinkbasin",
            "sink_bar__minus_02",
            "agent1",
        ]
    ) == {
        "cabinet_bar__minus_00_dot_58": "cabinet 2",
        "cabinet_bar__plus_00_dot_10": "cabinet 1",
        "sink_bar__minus_02_bar_sinkbasin": "sinkbasin 1",
        "sink_bar__minus_02": "sink 1",
        "agent1": "agent1",
    }


@pytest.mark.usefixtures("data")
async def test_a_game_is_played():
    pytest.importorskip("fast_downward")
    episode = await TextWorld(kind="alfworld").open("test-0", 0)
    system, here = episode.opening()
    assert system.content.endswith("Your task is to: take the apple.")
    # It begins at shelf 2, whose id comes first.
    assert here.content == "-= Welcome =-\n\nYou see a shelf.\nCommands: go to shelf 1"
    assert (await episode.act("take apple 1 from shelf 1")).events == ("action/impossible",)
    seen = await episode.act("go to shelf 1")
    assert seen.messages[0].content.startswith("You arrive at shelf 1.\nCommands: ")
    assert (seen.score, seen.end) == (0.0, None)
    last = await episode.act("take apple 1 from shelf 1")
    assert (last.score, last.reward, last.end) == (1.0, 1.0, End.FINISHED)
    with pytest.raises(LookupError, match="does not know the way"):
        episode.demonstrate(0)
    await episode.close()
