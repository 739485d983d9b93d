# Data sets. Input: a pack, official files or a download. Output: data/ready/<dataset>.json, which
# says what was found: source, content hash, counts.
#
# The files that are there are its input, so that where they are removed or replaced it is looked for
# and checked again. Only training jobs and index lists need it: a clone with records needs no data.


rule dataset:
    input:
        dataset_input,
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
        data_root=data_root_option,
    shell:
        "{params.python} fedrepro.cli data prepare {wildcards.dataset} --out {output:q}"
        " {params.content:q} {params.data_root:q} > {log:q} 2>&1"
