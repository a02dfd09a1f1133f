"""Statistics of the board: from the frame of runs to a frame with one row per encoding. Nothing here is formatted."""
