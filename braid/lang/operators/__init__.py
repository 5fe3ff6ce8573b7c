"""Operators that a program calls in FROM; every file here declares one."""
