"""Rules on published checkpoints: what their files state, and the tensors behind it."""
