"""New projects and launch files, rendered from the templates that ship as data."""
