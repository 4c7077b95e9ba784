"""Kubernetes objects as the scheduler needs them: decoded once, at the edge, into small immutable values."""
