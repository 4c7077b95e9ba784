"""What the process measures of itself: families of counters, gauges and histograms, and their exposition.

Names, labels and buckets are the reference's, so that dashboards and alerts keep working. `instruments` holds the cheap
parts, the other modules say which families exist and are the only ones to name them.
"""
