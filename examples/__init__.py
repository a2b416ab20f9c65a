"""Servers to start and to read: `toolfold serve examples.desk:tools`."""
