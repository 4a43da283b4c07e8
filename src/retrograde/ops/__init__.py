"""Floor 0: pure functions of tensors. They import torch, jaxtyping and each other."""
