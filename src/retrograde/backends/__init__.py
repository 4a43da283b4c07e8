"""Floor 7: engines. The only modules that import transformers."""
