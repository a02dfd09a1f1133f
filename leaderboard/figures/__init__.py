"""Static figures of the board, drawn with matplotlib."""
