"""The plugins that weigh the resources which pods ask for against those which nodes offer."""
