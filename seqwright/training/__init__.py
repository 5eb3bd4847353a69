"""The training loop and what it needs: schedule, optimizer, checkpoints."""
