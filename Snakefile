include: "workflow/Snakefile"


# An included file cannot say so itself.
rule default:
    """What a bare `snakemake` makes: all."""
    default_target: True
    input:
        rules.all.input,
    localrule: True
