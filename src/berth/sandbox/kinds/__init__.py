"""What kinds of objects there are, what their fields are, and what makes them valid."""
