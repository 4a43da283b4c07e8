"""Playing answers."""

from retrograde.environments.bfcl.reading import calls_in, said


async def played(environment, task, answers):
    """The episode, the last observation and the return."""
    episode = await environment.open(task, 0)
    episode.opening()
    total, seen = 0.0, None
    for answer in answers:
        seen = await episode.act(answer)
        total += seen.reward
        if seen.end is not None:
            break
    return episode, seen, total


def without_last_call(answers, form):
    """The same answers, but for the last call that is made."""
    last = max(i for i, answer in enumerate(answers) if calls_in(answer, form))
    calls = calls_in(answers[last], form)[:-1]
    return [*answers[:last], *([said(calls, form)] if calls else []), *answers[last + 1 :]]
