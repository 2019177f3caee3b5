"""Stores of feeds in Valkey or Redis."""
