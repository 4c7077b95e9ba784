"""What the scheduler believes about the cluster: node columns, pods and where they are, images, counts."""
