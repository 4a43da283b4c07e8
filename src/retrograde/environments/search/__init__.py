"""Questions that are answered by searching, in the tags of Search-R1."""
