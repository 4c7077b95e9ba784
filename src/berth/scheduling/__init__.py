"""The cycles: one pod at a time, from the queue to a decision, and the engine that turns events into decisions."""
