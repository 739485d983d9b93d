include: "workflow/Snakefile"


# Snakemake forgets the default target of a file that is included.
rule default:
    """What a bare `snakemake` makes: all."""
    default_target: True
    input:
        rules.all.input,
    localrule: True
