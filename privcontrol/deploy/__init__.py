"""The command that publishes a plant's outputs."""
