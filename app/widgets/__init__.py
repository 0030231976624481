"""What features are built of: tables, headings, forms, charts, source text, style. Knows no session."""
