"""The papers: one package each, with all of its own code.

``measurements`` makes frames of runs, ``figures`` draws them, ``claims`` decides what the paper
asserts. A paper imports :mod:`fedrepro.report` and what that imports, and no other paper.
"""
