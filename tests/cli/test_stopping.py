"""SIGTERM and Ctrl-C: what is under way is finished or dropped, and nothing before it is lost."""

import contextlib
import gc
import signal
import time

import pytest

from retrograde.cli import stopping, train
from retrograde.cli.main import main
from retrograde.environments.lake import LakeEpisode
from retrograde.rollouts.grow import Grower
from retrograde.trainer import evaluation, loop
from retrograde.trainer.checkpoint import checkpoints, fault

from .resumed import STEPS, metrics, same, words

METHOD = "rtpo_plus"  # it has all the state there is
CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, walker):
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(often(METHOD, walker, out)) == 0
    return out


def at(patch, iteration, round_, act):
    """Have something done at the beginning of a round of growth of an iteration."""
    grow, begun = Grower.grow, []

    async def growing(self, groups, forks, grown_in, seed):
        if seed != evaluation.SEED:
            begun.extend([seed] if grown_in == 0 else [])
            if (len(begun), grown_in) == (iteration, round_):
                act()
        return await grow(self, groups, forks, grown_in, seed)

    patch.setattr(Grower, "grow", growing)


def often(method, model, out):
    """A run that writes a checkpoint after each iteration."""
    return [*words(method, model, out), "--keep-best", "None"]


def rare(method, model, out):
    """A run that writes no checkpoint on its own but the first and the last."""
    asked = often(method, model, out)
    asked[asked.index("--save-every") + 1] = "100"
    return asked


def goes_on(retrograde, run, whole):
    said = retrograde("train", "--resume", "--out", run, "--quiet")
    assert said.code == 0, said
    assert "damaged" not in said.err
    same(run, whole)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_an_iteration_that_ends_in_time_is_finished_and_saved(
    number, whole, walker, tmp_path, monkeypatch, retrograde
):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at(patch, 2, 1, lambda: signal.raise_signal(number))
        said = retrograde(*rare(METHOD, walker, run))
    assert said.code == CODES[number]
    assert [line["step"] for line in metrics(run)] == [0, 1, 2]
    last = checkpoints(run / "checkpoints")[-1]
    assert last.name == "step-000002"
    assert f"kept is {last}" in said.err
    assert f"--resume --out {run}" in said.err
    assert "Traceback" not in said.err
    goes_on(retrograde, run, whole)


def forever():
    signal.raise_signal(signal.SIGTERM)
    while True:
        time.sleep(0.05)


def forever_at_first_deaf():
    signal.raise_signal(signal.SIGTERM)
    with contextlib.suppress(BaseException):
        forever()
    forever()


@pytest.mark.parametrize(
    "act", [forever, pytest.param(forever_at_first_deaf, marks=pytest.mark.slow)]
)
def test_one_that_only_sampled_is_dropped_and_its_beginning_saved(
    act, whole, walker, tmp_path, monkeypatch, retrograde
):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(stopping, "GRACE_SECONDS", 0.2)
        patch.setattr(stopping, "AGAIN_SECONDS", 0.2)
        at(patch, 2, 0, act)
        said = retrograde(*rare(METHOD, walker, run))
    assert said.code == 0
    assert [line["step"] for line in metrics(run)] == [0, 1]
    assert [path.name for path in checkpoints(run / "checkpoints")] == [
        "step-000000", "step-000001",
    ]  # fmt: skip
    goes_on(retrograde, run, whole)


def test_a_call_into_the_environment_is_broken_into_without_ado(
    whole, walker, tmp_path, monkeypatch, retrograde, caplog
):
    """Such a call is a task of its own, of which asyncio would say that nobody heard its end."""
    run, act, acts = tmp_path / "run", LakeEpisode.act, []

    async def acting(self, text):
        acts.append(text)
        if len(acts) == 200:
            forever()
        return await act(self, text)

    with monkeypatch.context() as patch:
        patch.setattr(stopping, "GRACE_SECONDS", 0.2)
        patch.setattr(LakeEpisode, "act", acting)
        said = retrograde(*often(METHOD, walker, run))
    gc.collect()
    assert len(acts) >= 200
    assert said.code == 0
    assert "Traceback" not in said.err
    assert not [record for record in caplog.records if record.name == "asyncio"]
    goes_on(retrograde, run, whole)


def test_writing_a_checkpoint_is_not_broken_into(whole, walker, tmp_path, monkeypatch, retrograde):
    """However long it takes: here twice as long as it takes to be interrupted again."""
    run, save = tmp_path / "run", train.save_checkpoint

    def slowly(folder, now, *rest, **more):
        time.sleep(0.5 if now.step == 1 else 0)
        return save(folder, now, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(stopping, "GRACE_SECONDS", 0.2)
        patch.setattr(stopping, "AGAIN_SECONDS", 0.2)
        patch.setattr(train, "save_checkpoint", slowly)
        at(patch, 2, 0, forever)
        said = retrograde(*rare(METHOD, walker, run))
    assert said.code == 0
    assert f"kept is {run / 'checkpoints' / 'step-000001'}" in said.err
    goes_on(retrograde, run, whole)


def test_one_that_learned_is_dropped_and_the_last_checkpoint_is_what_there_is(
    whole, walker, tmp_path, monkeypatch, retrograde
):
    """Between two phases of an iteration the weights are no iteration's: nothing is saved."""
    run, learn, learned = tmp_path / "run", loop.learn, []

    async def learning(*asked, **named):
        trained = await learn(*asked, **named)
        learned.append(trained)
        if sum(map(bool, learned)) == 2:
            forever()
        return trained

    with monkeypatch.context() as patch:
        patch.setattr(stopping, "GRACE_SECONDS", 0.2)
        patch.setattr(loop, "learn", learning)
        said = retrograde(*rare(METHOD, walker, run))
    assert said.code == 0
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-000000"]
    assert f"kept is {run / 'checkpoints' / 'step-000000'}" in said.err
    goes_on(retrograde, run, whole)


@pytest.mark.slow
def test_a_second_ctrl_c_waits_for_nothing(whole, walker, tmp_path, monkeypatch, retrograde):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it went on")

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at(patch, 1, 2, twice)
        said = retrograde(*rare(METHOD, walker, run))
    assert said.code == 130
    assert [path.name for path in checkpoints(run / "checkpoints")] == ["step-000000"]
    goes_on(retrograde, run, whole)


def test_signals_are_heard_by_others_again_afterwards(walker, tmp_path, monkeypatch, retrograde):
    before = [signal.getsignal(number) for number in CODES]
    with monkeypatch.context() as patch:
        at(patch, 1, 1, lambda: signal.raise_signal(signal.SIGTERM))
        assert retrograde(*rare(METHOD, walker, tmp_path / "run")).code == 0
    assert [signal.getsignal(number) for number in CODES] == before


@pytest.mark.slow
def test_a_run_that_is_over_is_not_one_that_was_stopped(
    whole, walker, tmp_path, monkeypatch, retrograde
):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_tally", lambda *both, _tally=loop._tally: _last(_tally, *both))
        said = retrograde(*often(METHOD, walker, run))
    assert said.code == 0
    assert "held-out success" in said.out
    assert "stopped" not in said.err
    same(run, whole)


def _last(tally, state, ports):
    tally(state, ports)
    if state.step == STEPS - 1:
        signal.raise_signal(signal.SIGINT)


def test_what_is_wrong_with_a_newer_checkpoint_is_said_and_the_older_one_used(
    whole, walker, tmp_path, monkeypatch, retrograde
):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at(patch, 2, 2, lambda: signal.raise_signal(signal.SIGTERM))
        retrograde(*often(METHOD, walker, run))
    newest = checkpoints(run / "checkpoints")[-1]
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    said = retrograde("train", "--resume", "--out", run, "--quiet")
    assert said.code == 0, said
    assert f"notice: {newest} is damaged and passed over: model.safetensors has" in said.err
    same(run, whole)
    assert fault(newest) is None


def test_a_run_all_of_whose_checkpoints_are_damaged_says_so(walker, tmp_path, retrograde):
    run = tmp_path / "run"
    once = words(METHOD, walker, run)
    once[once.index("--steps") + 1] = "0"
    assert retrograde(*once).code == 0
    for path in checkpoints(run / "checkpoints"):
        (path / "config.json").unlink()
    said = retrograde("train", "--resume", "--out", run)
    assert said.code == 2
    assert "config.json is missing" in said.err
    assert "no sound checkpoint to resume from" in said.err


@pytest.mark.slow
def test_a_comparison_that_is_stopped_says_how_it_goes_on(walker, place, monkeypatch, retrograde):
    words = (
        "compare", "--algorithms", "rtpo,grpo", "--environment", "lake", "--model", walker,
        "--seeds", 1, "--budget", 100000, "--eval-episodes", 2, "--prompts", 2, "--out", "c",
    )  # fmt: skip
    with monkeypatch.context() as patch:
        at(patch, 2, 0, lambda: signal.raise_signal(signal.SIGTERM))
        said = retrograde(*words)
    assert said.code == 0
    assert "`retrograde compare --resume --out DIR` goes on" in said.err
    (metric_lines,) = place.rglob("metrics.jsonl")  # the second run was not begun
    assert len(metric_lines.read_text().splitlines()) >= 2
    assert checkpoints(metric_lines.parent / "checkpoints")
