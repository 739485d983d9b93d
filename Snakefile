include: "workflow/Snakefile"


rule default:
    """What a bare `snakemake` makes, which an included file cannot say: all."""
    default_target: True
    input:
        rules.all.input,
    localrule: True
