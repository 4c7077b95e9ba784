"""What can be wrong with the serving side at the start: one root, so that one handler can tell the operator."""


class ServingError(Exception):
    """The HTTPS server cannot be had as it was asked for; the text names the flag, file or address and the reason."""
