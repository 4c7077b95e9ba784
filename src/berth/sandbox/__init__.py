"""A Kubernetes API server without a cluster, and nodes without machines.

`EmbeddedApiServer` serves the part of the Kubernetes API that a scheduler, kubectl and client libraries use, from
memory; `hollow` adds nodes on which pods seem to run. Together they let a newcomer and the tests do without a cluster.
Nothing outside this package depends on it but the commands.
"""
