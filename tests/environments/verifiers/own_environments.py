"""Environments as users of the library verifiers write them."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(40)]


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return a + b


def boom() -> str:
    """Raise."""
    raise RuntimeError("broken")


async def right(completion, answer) -> float:
    return float(completion[-1].content.strip() == answer)


async def length(completion) -> float:
    return float(len(completion))


def with_tools(max_turns: int = 3) -> vf.Environment:
    rubric = vf.Rubric(funcs=[right, length], weights=[1.0, 0.0])
    return vf.ToolEnv(
        dataset=Dataset.from_list(ROWS),
        tools=[add, boom],
        rubric=rubric,
        max_turns=max_turns,
        system_prompt="Use the tools.",
    )


class Guessing(vf.MultiTurnEnv):
    """Says higher or lower; no tools."""

    async def env_response(self, messages, state, **kwargs):
        said = messages[-1].content
        if said == state["answer"]:
            state["final_env_response"] = [{"role": "user", "content": "right"}]
            return state["final_env_response"]
        return [{"role": "user", "content": "no"}]

    @vf.cleanup
    async def note(self, state) -> None:
        CLEANED.append(state["answer"])


CLEANED: list[str] = []


def guessing(*, broken: bool = False) -> vf.Environment:
    async def won(state) -> float:
        return float(state.get("final_env_response") is not None)

    class Broken(Guessing):
        async def env_response(self, messages, state, **kwargs):
            raise vf.InfraError("the sandbox is gone")

    return (Broken if broken else Guessing)(
        dataset=Dataset.from_list(ROWS[:30]),
        eval_dataset=Dataset.from_list(ROWS[30:]),
        rubric=vf.Rubric(funcs=[won]),
        max_turns=3,
    )
