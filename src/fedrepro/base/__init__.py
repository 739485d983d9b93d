"""What every other package uses: errors, strict models, YAML, files, where things are.

It imports no other package of fedrepro.
"""
