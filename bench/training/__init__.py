"""Training and evaluation of one model: batches, decoder, optimizer, training loop, exact match by length."""
