"""PodTopologySpread: pods alike spread evenly over the domains of a topology."""
