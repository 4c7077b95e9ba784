"""The columns that kubectl shows: which there are for each kind, and how their cells are filled."""
