"""Zhao et al. 2018, Federated Learning with Non-IID Data."""
