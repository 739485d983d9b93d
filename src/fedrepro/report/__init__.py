"""What is made of runs: tables, figures, verdicts, traces, and the numbers in the documents.

It imports :mod:`fedrepro.runs`, :mod:`fedrepro.fl` and :mod:`fedrepro.base`, and finds the papers'
code by name (:mod:`fedrepro.report.code`).
"""
