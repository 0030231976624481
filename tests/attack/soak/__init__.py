"""A soak: the real window under seeded random hands, watched for exceptions and for what grows."""
