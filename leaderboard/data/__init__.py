"""Results as data: reading runs, the published store, the grid of a board, and export."""
