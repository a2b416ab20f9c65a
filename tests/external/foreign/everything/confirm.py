"""What is found in the Go SDK's everything server: nothing."""

FINDINGS = {}
DISPUTES = {}
