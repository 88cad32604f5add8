"""The paper's tables, run again cell by cell: its numbers, what they were trained with, and ours beside them."""
