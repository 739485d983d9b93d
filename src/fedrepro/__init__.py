"""fedrepro: five papers on federated learning with non-IID data, re-created and checked."""

__version__ = "0.1.0"
