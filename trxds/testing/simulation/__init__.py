"""Whole meshes in one process, on a clock that jumps, whose every step a seed decides (`docs/testing.md`)."""
