"""Measurements behind choices that the paper leaves open."""
