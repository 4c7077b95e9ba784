"""The commands: thin, each a module of its name."""
