"""The contract between the scheduler and its plugins, in upstream's words."""
