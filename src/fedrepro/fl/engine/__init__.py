"""Training: drives runs, answers their requests on a backend, checkpoints them."""
