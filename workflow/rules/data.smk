# Data sets. Input: a pack, official files or a download. Output: data/ready/<dataset>.json, which
# says what was found: source, content hash, counts.
#
# Only training jobs and index lists need it, so a clone with records needs no data.


rule dataset:
    output:
        "data/ready/{dataset}.json",
    log:
        "logs/data/{dataset}.log",
    retries: 3
    localrule: True
    conda:
        "../../envs/fedrepro.yaml"
    params:
        data_root=data_root_option,
    shell:
        "python3 -m fedrepro.cli data prepare {wildcards.dataset} --out {output:q}"
        " {params.data_root:q} > {log:q} 2>&1"
