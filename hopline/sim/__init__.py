"""The shipped simulator: API servers, node agents and rollouts in one SQLite file.

State is stored, and what happens by itself is a timestamp: so a simulated cluster goes on while every process is dead.
"""

from hopline.sim.clusters import SimulatedClusters, open_simulation

__all__ = ["SimulatedClusters", "open_simulation"]
