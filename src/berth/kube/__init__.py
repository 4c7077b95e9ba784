"""The Kubernetes client: credentials, sessions, reflectors, paced writes, events and leases.

It knows HTTP and knows no scheduling. The runtime builds on it; nothing here imports anything of ours but `berth.api`.
"""
