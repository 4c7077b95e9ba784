"""Configuration: `KubeSchedulerConfiguration` from a file, and the table of what each Kubernetes version means."""
