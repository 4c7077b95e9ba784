"""InterPodAffinity: pods go near some pods and away from others."""
