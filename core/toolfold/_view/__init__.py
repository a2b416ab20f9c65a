"""What one snapshot shows and lets be called: availability, lists, control tools, calls."""
