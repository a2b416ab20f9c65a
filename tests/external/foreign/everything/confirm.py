"""What is found in the Go SDK's everything server: nothing."""

from tests.external.foreign.confirming import Dispute, Finding

FINDINGS: dict[str, Finding] = {}
DISPUTES: dict[str, Dispute] = {}
