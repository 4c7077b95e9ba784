"""Golden vectors: scenarios whose outcome the reference scheduler recorded, evaluated by the core and compared.

``python -m tests.conformance PATH...`` runs them; `tests.conformance.test_vectors` holds what must be equal today.
"""
