"""What policies are measured with: suites and their scores, the scripted solver, reports."""
