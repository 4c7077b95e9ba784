"""Berth: a drop-in replacement for kube-scheduler, in Python."""

__version__ = "0.1.0.dev0"
