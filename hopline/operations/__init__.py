"""What an upgrade does to the outside world, through ports: true with or without Temporal.

What belongs here: reading a cluster, publishing a status, applying a component, commanding a node, looking before a
skip. What does not: decisions (`hopline.domain`), retries and schedules (`workflows`), HTTP (`hopline.kube`).
"""
