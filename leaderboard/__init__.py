"""The leaderboard: results in, a board out. Reads what ``bench`` wrote and never trains anything."""
