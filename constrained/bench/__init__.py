"""Measurements that a user can run: `constrained bench`."""
