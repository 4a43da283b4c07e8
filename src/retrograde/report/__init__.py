"""What a person looks at: runs as one page, from disk or served while they train."""
