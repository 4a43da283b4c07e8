"""`retrograde compare`: equal budgets, honest figures, and nothing lost on the way."""

import contextlib
import io
import json
import re
import runpy
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree as ET

import pytest

from retrograde.backends.embedded import WarmStart, warm_started
from retrograde.cli.compare_page import inline
from retrograde.cli.main import main
from retrograde.cli.method import specs_of
from retrograde.environments import registry
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Forking
from retrograde.rollouts.grow import Grower
from retrograde.trainer import loop
from retrograde.trainer.checkpoint import checkpoints

TIMED = {"seconds", "training_seconds", "wall_seconds"}
BUDGET = 600
METHODS = "grpo:rollouts=4+minibatches=1,rtpo:siblings=3+min-signal=1"
GRPO, RTPO = METHODS.split(",")


@pytest.fixture(scope="session")
def hopper(tmp_path_factory) -> str:
    """A directory with a model that finds its way on hop now and then."""
    path = tmp_path_factory.mktemp("hopper")
    lessons = WarmStart(steps=80, batch=32, warmup_steps=4, learning_rate=1e-2)
    model, tokenizer = warm_started(Hop(hops=1), lessons, lambda *_: None)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def words(model, *more, algorithms=METHODS, seeds=2, budget=BUDGET, out="c"):
    return [
        "compare", "--algorithms", algorithms, "--environment", "hop", "--environment.hops", "1",
        "--model", model, "--seeds", seeds, "--budget", budget, "--prompts", 2,
        "--eval-episodes", 4, "--eval-every", 2, "--save-every", 1, "--out", out, *more,
    ]  # fmt: skip


def timeless(tree):
    """A record without its clocks."""
    if isinstance(tree, dict):
        return {k: timeless(v) for k, v in tree.items() if k not in TIMED | {"arguments"}}
    return [timeless(entry) for entry in tree] if isinstance(tree, list) else tree


def recorded(out):
    return json.loads((Path(out) / "compare.json").read_text())


def runs(record):
    return {(m["label"], run["seed"]): run for m in record["methods"] for run in m["runs"]}


@pytest.fixture(scope="module")
def compared(tmp_path_factory, hopper):
    """A comparison that nobody disturbed, what it printed, and the lines of its progress."""
    place = tmp_path_factory.mktemp("compared")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(place):
        assert main([str(word) for word in words(hopper, "--json")]) == 0
    return place / "c", out.getvalue(), err.getvalue()


def test_json_is_what_is_kept_and_nothing_else_is_printed(compared):
    out, printed, _ = compared
    assert json.loads(printed) == recorded(out)
    assert {path.name for path in out.iterdir()} == {
        "compare.json", "compare.html", "curves.svg", "rollouts.html", "runs",
    }  # fmt: skip


def test_every_field_is_there(compared):
    record = recorded(compared[0])
    assert record.keys() == {"settings", "machine", "baseline", "methods"}
    assert record["machine"].keys() == {
        "cpu", "cores", "python", "torch", "retrograde", "commit",
    }  # fmt: skip
    assert record["baseline"] == GRPO  # no method is called grpo: the first
    settings = record["settings"]
    assert (settings["budget"], settings["budget_kind"], settings["seeds"]) == (600, "tokens", 2)
    assert settings["environment_settings"]["hops"] == 1
    assert (settings["run"]["prompts"], settings["run"]["eval_episodes"]) == (2, 4)
    grpo, rtpo = record["methods"]
    assert (rtpo["label"], rtpo["algorithm"]) == (RTPO, "rtpo")
    assert rtpo["options"] == {"siblings": "3", "min-signal": "1"}
    assert rtpo["learning_rate"] == 5e-4  # the model's recommendation
    assert rtpo["tuning"] == []
    assert grpo["difference"] is None
    for method in record["methods"]:
        assert [run["seed"] for run in method["runs"]] == [0, 1]
        for run in method["runs"]:
            assert run["status"] == "finished"
            assert run["curve"][0]["tokens"] == 0
            assert run["curve"][-1]["success"] == run["final_success"]
            assert run["best_success"] == max(point["success"] for point in run["curve"])
            assert 0 <= run["auc"] <= 1
            assert run["optimizer_steps"] > 0  # there was something to learn, and to lose
            assert 0 < run["zero_advantage_share"] < 1
    means = [fmean(run["tokens"] for run in m["runs"]) for m in record["methods"]]
    assert [m["summary"]["tokens"]["mean"] for m in record["methods"]] == means
    assert rtpo["difference"]["tokens"]["mean"] == pytest.approx(means[1] - means[0])


def test_all_start_alike_and_stop_in_the_iteration_that_uses_the_budget_up(compared):
    out, _, _ = compared
    found = runs(recorded(out))
    assert len({json.dumps(run["curve"][0]["success"]) for run in found.values()}) == 1
    for (label, seed), run in found.items():
        slug = specs_of(label)[0].slug
        text = (out / "runs" / slug / f"seed-{seed}" / "metrics.jsonl").read_text()
        *_, before, last = [json.loads(line)["tokens/generated"] for line in text.splitlines()]
        assert before < BUDGET <= last == run["tokens"]


def test_methods_take_turns_seed_by_seed(compared):
    ends = [line for line in compared[2].splitlines() if line.startswith("[")]
    assert [line.partition(": ")[0] for line in ends] == [
        f"[1/4] {GRPO}, seed 0", f"[2/4] {RTPO}, seed 0",
        f"[3/4] {GRPO}, seed 1", f"[4/4] {RTPO}, seed 1",
    ]  # fmt: skip


def test_a_run_is_an_ordinary_run(compared, retrograde):
    out, _, _ = compared
    folder = out / "runs" / specs_of(RTPO)[0].slug / "seed-1"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["settings"]["algorithm_settings"]["grow"]["siblings"] == 3
    assert manifest["settings"]["run"]["seed"] == 1
    assert manifest["settings"]["run"]["max_tokens"] == BUDGET
    (last,) = checkpoints(folder / "checkpoints")  # the others were removed
    said = retrograde("evaluate", last, "--environment", "hop", "--json")
    assert json.loads(said.out)["eval/success"] == runs(recorded(out))[RTPO, 1]["final_success"]


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone(compared):
    text = (compared[0] / "compare.html").read_text()
    tags = Tags(text)
    assert tags.open == []
    names = [tag for tag, _ in tags.seen]
    assert names.count("h1") == 1
    assert names.count("h2") >= 4
    assert names.count("table") == names.count("caption") >= 5
    assert "svg" in names
    assert not {"script", "link", "img"} & set(names)
    for _, attributes in tags.seen:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "prefers-color-scheme: dark" in text
    for label in (GRPO, RTPO):
        assert label in text


def test_the_picture_takes_the_colours_of_its_page(compared):
    picture = (compared[0] / "curves.svg").read_text()
    said = "".join(ET.fromstring(picture).itertext())  # noqa: S314 - our own
    for expected in (GRPO, RTPO, "generated tokens", "held-out success"):
        assert expected in said
    assert "currentColor" not in picture  # alone it has ink and paper of its own
    assert "#ffffff" in picture
    assert "currentColor" in inline(picture)
    assert "#ffffff" not in inline(picture)


def test_the_results_page_is_written_from_records(compared, place, monkeypatch):
    script = Path(__file__).parents[2] / "scripts" / "results_page.py"
    monkeypatch.setattr("sys.argv", [str(script), "--commentary", "said.md"])
    write = runpy.run_path(str(script))["main"]
    assert write() == 2  # nothing to write about, and nothing is overwritten
    assert not (place / "docs").exists()
    folder = place / "benchmarks" / "results" / "hop"
    folder.mkdir(parents=True)
    shutil.copy(compared[0] / "compare.json", folder)
    (place / "said.md").write_text("All is well.\n\n## hop\n\nAs expected.\n\n## Why\n\nLuck.\n")
    assert write() == 0
    text = (place / "docs" / "results.md").read_text()
    places = [
        text.index(expected)
        for expected in (
            "# Results",
            "All is well.",
            "## hop",
            f"| `{RTPO}` |",
            "As expected.",
            "## Why",
        )
    ]
    assert places == sorted(places)
    apart = recorded(compared[0])["methods"][1]["difference"]["final_success"]["mean"]
    assert f"{apart:+.3f}" in text
    assert "(pictures/results-hop.svg)" in text
    ET.parse(place / "docs" / "pictures" / "results-hop.svg")  # noqa: S314 - our own


class Stopped(BaseException):
    """The power is gone."""


@pytest.mark.parametrize("at", [1, 9, 26])
def test_stopped_and_resumed_is_as_if_it_had_not_been(
    compared, hopper, retrograde, place, monkeypatch, at
):
    grow, calls = Grower.grow, []

    async def stopping(self, *asked):
        calls.append(asked)
        if len(calls) == at:
            raise Stopped
        return await grow(self, *asked)

    with monkeypatch.context() as patch:
        patch.setattr(Grower, "grow", stopping)
        with pytest.raises(Stopped):
            retrograde(*words(hopper))
    kept = {key: run for key, run in runs(recorded("c")).items() if run["status"] == "finished"}
    assert len(kept) == {1: 0, 9: 0, 26: 1}[at]  # the last was stopped in its second run
    said = retrograde("compare", "--resume", "--out", "c", "--json")
    assert said.code == 0, said
    whole = recorded(compared[0])
    assert timeless(json.loads(said.out)) == timeless(whole)
    for key, run in kept.items():
        assert runs(recorded("c"))[key] == run  # clocks and all: it was not made again


def test_a_finished_comparison_is_only_shown_again(compared, place, retrograde, monkeypatch):
    # In place, since nothing may change but the baseline.
    monkeypatch.setattr(Grower, "grow", None)
    said = retrograde("compare", "--resume", "--out", compared[0], "--baseline", RTPO, "--json")
    assert said.code == 0, said
    again = json.loads(said.out)
    assert again["baseline"] == RTPO
    first, second = again["methods"]
    assert second["difference"] is None
    assert first["difference"]["tokens"]["mean"] < 0 or first["difference"]["tokens"]["mean"] > 0
    said = retrograde("compare", "--resume", "--out", compared[0], "--baseline", GRPO)
    assert said.code == 0
    assert "area under curve" in said.out


def test_a_resumption_with_other_settings_is_refused(compared, retrograde):
    before = recorded(compared[0])
    more = ["--seeds", "3", "--budget", "700", "--environment.hops", "3", "--temperature", "0.9"]
    said = retrograde("compare", "--resume", "--out", compared[0], *more)
    assert said.code == 2
    for expected in (
        "seeds: the comparison has 2, asked for is 3",
        "budget: the comparison has 600, asked for is 700",
        "environment_settings.hops: the comparison has 1, asked for is 3",
        "run.temperature: the comparison has 1.0, asked for is 0.9",
    ):
        assert expected in said.err
    assert recorded(compared[0]) == before


def test_a_run_that_fails_is_reported_and_the_others_go_on(
    hopper, retrograde, place, monkeypatch, compared
):
    learn = loop.learn

    async def failing(algorithm, *rest, **named):
        if algorithm.update.every_round:
            raise FloatingPointError("the gradient is not finite")
        return await learn(algorithm, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "learn", failing)
        said = retrograde(*words(hopper, seeds=1))
    assert said.code == 1
    failed = f"{RTPO}, seed 0: failed: FloatingPointError: the gradient is not finite"
    assert failed in said.out
    assert "0 of 1" in said.out
    record = recorded("c")
    assert runs(record)[GRPO, 0]["status"] == "finished"
    broken = runs(record)[RTPO, 0]
    assert (broken["status"], broken["final_success"]) == ("failed", None)
    assert record["methods"][1]["summary"]["final_success"] is None
    assert "FloatingPointError" in (place / "c" / "compare.html").read_text()
    (trace,) = (place / "c").rglob("*.error.txt")
    assert "in failing" in trace.read_text()
    # What made it fail is gone: the run is made again, and only that one.
    said = retrograde("compare", "--resume", "--out", "c", "--json")
    assert said.code == 0, said
    assert not list((place / "c").rglob("*.error.txt"))
    assert runs(recorded("c"))[GRPO, 0] == runs(record)[GRPO, 0]
    again, whole = runs(recorded("c"))[RTPO, 0], runs(recorded(compared[0]))[RTPO, 0]
    assert timeless(again) == timeless(whole)


def test_the_best_rate_is_used_and_its_price_is_told(hopper, retrograde, place):
    tune = ["--tune", "lr=1e-3,2e-2", "--tune-budget", "200"]
    said = retrograde(*words(hopper, *tune, seeds=1))
    assert said.code == 0, said
    record = recorded("c")
    assert record["settings"]["tune"] == {
        "learning_rates": [1e-3, 2e-2], "seeds": [1000], "budget": 200,
    }  # fmt: skip
    for method in record["methods"]:
        tried = method["tuning"]
        assert [trial["learning_rate"] for trial in tried] == [1e-3, 2e-2]  # none was denied one
        assert {trial["seed"] for trial in tried} == {1000}
        merit = {t["learning_rate"]: (t["final_success"], t["auc"]) for t in tried}
        assert merit[method["learning_rate"]] == max(merit.values())
        slug = specs_of(method["label"])[0].slug
        manifest = json.loads((place / "c/runs" / slug / "seed-0/manifest.json").read_text())
        used = manifest["settings"]["algorithm_settings"]["update"]["learning_rate"]
        assert used == method["learning_rate"]
        assert sum(trial["tokens"] for trial in tried) >= 400
        assert f"{sum(trial['tokens'] for trial in tried):,} tokens" in said.out
    assert "2 rates, 2 runs" in said.out


def test_two_at_once_come_to_the_same(compared, hopper, retrograde):
    said = retrograde(*words(hopper, "--jobs", 2, seeds=1))
    assert said.code == 0, said
    alone = runs(recorded(compared[0]))
    for key, run in runs(recorded("c")).items():
        assert timeless(run) == timeless(alone[key])


def test_a_process_that_fails_is_reported(hopper, retrograde, monkeypatch, place):
    monkeypatch.setenv("PYTHONPATH", str(place))
    (place / "sitecustomize.py").write_text("raise SystemExit('no power')")
    said = retrograde(*words(hopper, "--jobs", 2, "--json", seeds=1))
    assert said.code == 1
    assert {run["error"] for run in runs(json.loads(said.out)).values()} == {"SystemExit: no power"}


def test_seconds_are_a_budget_that_a_slow_disk_does_not_use(hopper, retrograde, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: time.sleep(0.1))
    asked = words(hopper, "--budget-kind", "seconds", "--json", seeds=1, budget="0.3")
    said = retrograde(*asked)
    assert said.code == 0, said
    for run in runs(json.loads(said.out)).values():
        *_, before, last = [point["seconds"] for point in run["curve"]]
        assert before <= 0.3 <= last
        assert run["training_seconds"] < run["wall_seconds"]


@pytest.fixture
def unforkable(monkeypatch):
    class Unforkable(Hop):
        """hop, if it could not be forked."""

        name = "unforkable"
        forking = Forking.NONE

    worlds = {**registry.ENVIRONMENTS, "unforkable": Unforkable}
    monkeypatch.setattr(registry, "ENVIRONMENTS", worlds)
    monkeypatch.setattr("retrograde.cli.settings.ENVIRONMENTS", worlds)


GOOD = {
    "--algorithms": "rtpo,grpo", "--environment": "hop", "--seeds": "1", "--budget": "100",
    "--out": "c",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "saying"),
    [
        *(({name: None}, f"{name} is needed") for name in GOOD if name != "--environment"),
        ({"--algorithms": "gpro,rtpo"}, "no algorithm is named 'gpro'; did you mean"),
        ({"--algorithms": "rtpo,,grpo"}, "an empty name"),
        ({"--algorithms": "rtpo,grpo,rtpo"}, "2 methods have the label 'rtpo'"),
        ({"--algorithms": "grpo:clip=0.1,grpo:clip-0.1"}, "option=value is needed"),
        ({"--algorithms": "grpo:clip=0.1,grpo:clip==0.1"}, "in one folder"),
        ({"--algorithms": "grpo:epohcs=3"}, "grpo has no setting 'epohcs'; did you mean epochs"),
        ({"--algorithms": "grpo:clip=0.1+clip=0.2"}, "clip is set twice"),
        ({"--algorithms": "grpo:scale=maybe"}, "scale is true or false, got 'maybe'"),
        ({"--algorithms": "grpo:clip=-1"}, "clip bounds"),
        ({"--algorithms": "grpo:epochs=many"}, "many"),
        ({"--environment": "hpo"}, "did you mean hop"),
        ({"--environment": "unforkable"}, "neither fork nor replay"),
        ({"--model": "embeded"}, "did you mean embedded"),
        ({"--seeds": "0"}, "--seeds: 1 to 1000 are needed, got 0"),
        ({"--seeds": "1001"}, "--seeds: 1 to 1000"),
        ({"--budget": "0"}, "--budget: a number above 0 is needed, got 0"),
        ({"--budget": "-5"}, "--budget"),
        ({"--budget": "much"}, "--budget: a number is needed, got 'much'"),
        ({"--budget": "1.5"}, "--budget: a whole number of tokens is needed"),
        ({"--budget": "nan", "--budget-kind": "seconds"}, "--budget: a number above 0"),
        ({"--budget-kind": "steps"}, "--budget-kind"),
        ({"--budget-kind": "seconds", "--jobs": "2"}, "needs --jobs 1"),
        ({"--jobs": "0"}, "--jobs: at least 1"),
        ({"--baseline": "dapo"}, "--baseline 'dapo' is none of the methods: rtpo, grpo"),
        ({"--tune": "clip=1"}, "--tune: lr=RATE,RATE,... is needed"),
        ({"--tune": "lr=fast"}, "--tune: numbers are needed"),
        ({"--tune": "lr=0,1"}, "learning rates above 0"),
        ({"--tune": "lr=1e-3,0.001"}, "named twice"),
        ({"--tune": "lr=1e-3", "--tune-seeds": "0"}, "--tune-seeds: at least 1"),
        ({"--tune": "lr=1e-3", "--tune-budget": "0"}, "--tune-budget: a number above 0"),
        ({"--tune-budget": "10"}, "--tune-budget means nothing without --tune"),
        ({"--tune": "lr=1e-3", "--algorithms": "grpo:lr=1e-2"}, "names its own"),
        ({"--seed": "1"}, "seeds are counted by --seeds"),
        ({"--steps": "1"}, "the length of a run is --budget"),
        ({"--max-tokens": "1"}, "the length of a run is --budget"),
        ({"--max_env_steps": "1"}, "the length of a run is --budget"),
        ({"--algorithm": "grpo"}, "name methods with --algorithms"),
        ({"--algorithm.epochs": "2"}, "(grpo:epochs=VALUE)"),
        ({"--eval-episodes": "0"}, "eval_episodes: at least 1"),
        ({"--no-such-thing": "1"}, "--no-such-thing"),
        ({"--out": "used"}, "--out used is not empty"),
        ({"--out": "used/thesis.txt"}, "is a file"),
        ({"--out": "nowhere", "--resume": None}, "nowhere holds no compare.json"),
        ({"--out": "used", "--resume": None}, "used holds no compare.json"),
    ],
)
@pytest.mark.usefixtures("unforkable")
def test_bad_input_is_refused_before_any_work(
    retrograde, place, hopper, monkeypatch, changes, saying
):
    (place / "used").mkdir()
    (place / "used" / "thesis.txt").write_text("years of work")
    asked = ["compare"]
    for name, value in ({"--model": hopper} | GOOD | changes).items():
        if value is not None:
            asked += [name, value]
        elif name == "--resume":
            asked.append(name)
    monkeypatch.setattr(Grower, "grow", None)
    said = retrograde(*asked)
    assert said.code == 2, said
    assert saying in " ".join((said.err + said.out).replace("│", " ").split())
    assert "Traceback" not in said.err
    assert [path.name for path in place.iterdir()] == ["used"]


def test_a_damaged_record_is_refused_by_name(retrograde, place):
    (place / "c").mkdir()
    (place / "c" / "compare.json").write_text('{"settings"')
    said = retrograde("compare", "--resume", "--out", "c")
    assert said.code == 2
    assert "c/compare.json is damaged" in said.err


def test_a_picture_that_could_not_be_drawn_is_refused_first(retrograde, place, hopper, monkeypatch):
    monkeypatch.setattr("retrograde.cli.compare_page.find_spec", lambda name: None)
    said = retrograde(*words(hopper))
    assert said.code == 2
    assert "pip install 'matplotlib>=3.9'" in said.err
    assert not (place / "c").exists()


def test_a_method_is_read_with_its_settings():
    (spec,) = specs_of("grpo:lr=1e-3+scale=no+rollouts=4")
    assert spec.words() == [
        "--algorithm", "grpo", "--algorithm.learning-rate", "1e-3", "--algorithm.no-scale",
        "--algorithm.rollouts", "4",
    ]  # fmt: skip
    assert re.fullmatch(r"[A-Za-z0-9._-]+", spec.slug)
    assert specs_of("grpo")[0].words(2e-5)[-2:] == ["--algorithm.learning-rate", "2e-05"]


def test_it_teaches(retrograde):
    said = retrograde("compare", "--help")
    assert said.code == 0
    for expected in ("examples:", "--budget-kind", "grpo:epochs=3+clip=0.3", "--tune", "--resume"):
        assert expected in said.out
    assert "compare" in retrograde("--help").out


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("grpo:epochs=0", "in grpo:epochs=0"),
        ("grpo:epochs=many", "in grpo:epochs=many"),
        ("grpo:clip=-1", "in grpo:clip=-1"),
    ],
)
def test_a_wrong_setting_is_said_with_the_method_it_is_of(retrograde, method, problem):
    words = ["--seeds", "1", "--budget", "100", "--out", "c"]
    said = retrograde("compare", "--algorithms", f"rtpo,{method}", *words)
    assert said.code == 2
    assert problem in said.err
    shared = retrograde("compare", "--algorithms", "rtpo,grpo:epochs=2", *words, "--prompts", "0")
    assert shared.code == 2
    assert "grpo" not in shared.err  # what all share is no method's
