"""Five figures, each one SVG that reads on white and on black: overview, curves by task, one encoding, learning rates, cost."""
