"""outlier_detection (A50): endpoints that fail more than the others are ejected for a while."""
