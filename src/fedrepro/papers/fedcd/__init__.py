"""Kopparapu, Lin, Zhao 2020, FedCD: cloned and deleted global models."""
