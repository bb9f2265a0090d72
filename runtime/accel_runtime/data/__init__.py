"""Prepared data loaders: exact mode, per-process mode, and skipping batches."""
