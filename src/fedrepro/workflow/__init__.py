"""What Snakemake asks: the configuration, what depends on what, and the schemas of files.

It imports :mod:`fedrepro.report`, :mod:`fedrepro.runs`, :mod:`fedrepro.fl`, :mod:`fedrepro.base`.
"""
