"""The plugin DefaultPreemption."""
