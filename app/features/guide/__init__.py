"""The guide inside the window: the pages of resources/guide, their list, a search over all of them, a reader."""
