"""The life of objects: kept, changed by rules, found again."""
