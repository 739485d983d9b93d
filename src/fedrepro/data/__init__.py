"""Data sets: descriptions, loading from packs, official files or a download, and packs.

Importing this package imports no torch; only a download does (see `fedrepro.data.official`).
"""

from fedrepro.data.cadis import cadis_partition
from fedrepro.data.dataset import Dataset
from fedrepro.data.registry import NAMES, DatasetInfo, describe
from fedrepro.data.sources import labels, load

__all__ = ["NAMES", "Dataset", "DatasetInfo", "cadis_partition", "describe", "labels", "load"]
