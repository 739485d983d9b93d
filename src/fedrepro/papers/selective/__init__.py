"""Liu, Lee, Julien 2020, model complexity and selective federated learning."""
