"""`ToolSet` and registration: what users say there is, checked and turned into a catalog."""
