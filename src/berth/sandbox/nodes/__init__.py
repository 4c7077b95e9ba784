"""Nodes without machines, and how they reach an API server."""
