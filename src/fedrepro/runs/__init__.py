"""Runs: which are planned, how they are trained and recorded, and how records are read.

It imports :mod:`fedrepro.fl` and :mod:`fedrepro.base`.
"""
