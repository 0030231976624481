"""The Jobs panel."""
