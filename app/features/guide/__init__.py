"""The guide in the window: the pages of resources/guide, their list, a search, and a reader."""
