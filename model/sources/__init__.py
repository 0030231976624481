"""Where models come from: folders, the hub, configurations, factories, .pt2 files, demos."""
