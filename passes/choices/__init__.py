"""What users, searches and allocations choose: options of transforms and edits of recipes, without the work itself."""
