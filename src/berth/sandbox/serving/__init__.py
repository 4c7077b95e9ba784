"""The HTTP side of the embedded API server: from a request to the answer."""
