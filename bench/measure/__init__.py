"""Measured costs of an encoding, and the card that stores them."""
