"""Nguyen et al. 2023, CADIS: clustered averaging with knowledge distillation."""
