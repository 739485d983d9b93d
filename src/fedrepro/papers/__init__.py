"""The papers: one package each, with all of its own code.

``measurements`` makes the frames of tables, ``figures`` those of figures, which ``drawings`` draws;
``claims`` decides what the paper asserts. A paper imports :mod:`fedrepro.report` and what that
imports, and no other paper.
"""
