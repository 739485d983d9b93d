"""Federated learning: data, partitions, networks, algorithms, the engine, and what a run is.

It imports :mod:`fedrepro.base` only. Inside it, the engine imports algorithms, networks, partitions
and data, and none of these imports the engine.
"""
