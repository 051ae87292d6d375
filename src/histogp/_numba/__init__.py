"""Compiled leaf loops: functions that take arrays and fill arrays, nothing else."""
