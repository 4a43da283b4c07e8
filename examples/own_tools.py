"""Your own Python functions become tools, and a small model learns to call them."""

from retrograde import Call, ToolEnvironment, train


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def teacher(record, chance):
    """Call the tool and say what was found; or, more often than not, guess."""
    if record.calls:
        return record.calls[0].result
    arguments = {"a": record.row["a"], "b": record.row["b"]}
    return Call("add", arguments) if chance.random() < 0.4 else str(chance.randrange(20))


tasks = [
    {"prompt": f"What is {a} + {b}?", "answer": a + b, "a": a, "b": b}
    for a in range(10)
    for b in range(10)
]
sums = ToolEnvironment(
    tasks=tasks, test_share=0.3, functions=[add], calls="pythonic", teacher=teacher, max_turns=3
)
if __name__ == "__main__":
    trained = train(sums, algorithm="grpo", steps=16, prompts=16)
    print(f"held-out success: {trained.metrics[0]['eval/success']:.2f} to {trained.success:.2f}")
