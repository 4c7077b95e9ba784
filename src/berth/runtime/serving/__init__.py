"""Health, metrics and configuration over HTTPS: who may ask, and what is shown."""
