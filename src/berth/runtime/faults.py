"""What ends a start: each text is the one line that the operator needs."""


class ServingError(Exception):
    """The HTTPS server cannot be had as it was asked for; the text names the flag, file or address and the reason."""


class StartError(Exception):
    """The process cannot start; the text is the one line that tells the operator what to mend."""
