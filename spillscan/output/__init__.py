"""What every command writes with: tables, charts, CSV, escaping, progress, files."""
