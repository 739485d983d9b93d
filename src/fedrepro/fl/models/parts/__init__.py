"""What networks are built of; these files import PyTorch."""
