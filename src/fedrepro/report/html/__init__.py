"""The report: static pages that say what holds, and lead from every number to its runs.

:mod:`fedrepro.report.html.content` reads what a scale's tables, figures and verdicts say;
:mod:`fedrepro.report.html.site` writes the pages. They need no server and no network.
"""
