"""The async shell: sessions, the executor of their transitions, observers, persistence."""
