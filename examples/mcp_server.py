"""A small model learns to use the tools of an MCP server."""

import shlex
import sys
from pathlib import Path

from retrograde import Call, ToolEnvironment, train

SERVER = shlex.join([sys.executable, str(Path(__file__).with_name("house_server.py"))])
PLACES = {"key": "hall", "map": "attic", "rope": "cellar", "lamp": "shed", "coin": "hall"}


def teacher(record, chance):
    """Look it up and say what was found; or, every other time, guess."""
    if record.calls:
        return record.calls[0].result
    thing = record.row["prompt"].split()[-1].strip("?")
    guess = chance.choice(list(PLACES.values()))
    return Call("find", {"thing": thing}) if chance.random() < 0.5 else guess


names = ("Ada", "Ben", "Cem", "Eva", "Fay", "Gil", "Ida", "Jon", "Lea", "Max", "Nia", "Omar",
         "Pia", "Ron", "Tom", "Zoe")  # fmt: skip
tasks = [{"prompt": f"{name} asks: where is the {thing}?", "answer": room}
         for name in names for thing, room in PLACES.items()]  # fmt: skip
house = ToolEnvironment(tasks=tasks, test_share=0.5, mcp=SERVER, mcp_shared=True, calls="react",
                        teacher=teacher, max_turns=3)  # fmt: skip
if __name__ == "__main__":
    trained = train(house, algorithm="grpo", steps=6, prompts=8)
    print(f"held-out success: {trained.metrics[0]['eval/success']:.2f} to {trained.success:.2f}")
