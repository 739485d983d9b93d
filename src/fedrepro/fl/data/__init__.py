"""Data sets: descriptions, loading from packs, official files or a download, and packs.

Importing this package imports no torch; only a download does (see `fedrepro.fl.data.official`).
"""

from fedrepro.fl.data.cadis import cadis_partition
from fedrepro.fl.data.dataset import Dataset
from fedrepro.fl.data.registry import DatasetInfo, describe, names
from fedrepro.fl.data.sources import labels, load

__all__ = ["Dataset", "DatasetInfo", "cadis_partition", "describe", "labels", "load", "names"]
