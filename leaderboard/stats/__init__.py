"""Statistics of the board: scores, intervals, significance tests and ranks; no formatting or drawing."""
