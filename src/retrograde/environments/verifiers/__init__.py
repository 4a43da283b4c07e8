"""Environments written for the library verifiers, as they are."""
