"""Pure decisions: no I/O, no clock, no randomness, no logging, no asyncio; the standard library and pydantic only.

What belongs here: versions, the upgrade graph, release and component models, the step graph, the plan, status
transitions, projections of the status onto custom resources, and the error tree. What does not: reading, writing,
waiting.
"""
