"""Jupyter notebooks: their code cells as one program, and back."""
