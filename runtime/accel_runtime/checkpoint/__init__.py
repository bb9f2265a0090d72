"""Checkpoints: written whole or not at all, verified when read, resumed where they were interrupted."""
