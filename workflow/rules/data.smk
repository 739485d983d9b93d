# Data sets. Input: a pack, official files or a download. Output: data/ready/<dataset>.json, which
# says what was found: source, content hash, counts.
#
# What is found of it is a parameter: where that is removed or replaced, and not where it is moved, it
# is looked for and checked again. Only training jobs and index lists need it: a clone with records
# needs no data.


rule dataset:
    """Look for a data set, or download it."""
    output:
        "data/ready/{dataset}.json",
    log:
        "logs/data/{dataset}.log",
    retries: 3
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        python=PYTHON,
        content=content_option,
        found=found,
    shell:
        "{params.python} fedrepro.cli data prepare {wildcards.dataset} --out {output:q}"
        " {params.content:q} > {log:q} 2>&1"
