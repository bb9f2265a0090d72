"""What a run says: as text, as a diff, and in formats for other programs."""
