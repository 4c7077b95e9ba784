"""The scheduling queue: which pods wait, what for, and which one is tried next."""
