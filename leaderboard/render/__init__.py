"""The board as text: markdown tables, encoding pages, the HTML page and the terminal."""
