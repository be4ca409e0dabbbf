"""The apps, one folder each; see docs/sites.md for how to add one."""
