"""Temporal's hands: one class per topic, constructed with ports. Decided here is only how to ask and to tell."""
