"""Function calling over several turns: the tasks and simulators of BFCL v3."""
