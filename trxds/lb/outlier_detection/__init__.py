"""outlier_detection ejects endpoints that fail more than the others for a while (A50)."""
