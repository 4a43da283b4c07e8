"""A rival that says what it was told, for the test of how rivals are driven."""

import os
import sys

from benchmarks.jobs import Jobs

if __name__ == "__main__":
    jobs = Jobs()
    sys.stdout.write("printed by a library\n")
    os.write(1, b"written by a library in C\n")
    jobs.answer(
        settings=jobs.settings,
        threads=os.environ["OMP_NUM_THREADS"],
        path=os.environ.get("PYTHONPATH"),
    )
    for job in jobs:
        if job.get("fail"):
            sys.stderr.write("the last words\n")
            raise SystemExit(1)
        jobs.answer(seconds=job["seconds"])
