"""The lowest package: values and tools that all others use, without HTTP/2 and xDS."""
