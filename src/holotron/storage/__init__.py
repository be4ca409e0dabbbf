"""Files and folders that survive a crash: atomic writes, journals, manifests. Shared by rollouts, labels and pages."""
