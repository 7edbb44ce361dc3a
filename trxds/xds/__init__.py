"""The xDS client: it gets resources from the control plane and reports load to it. It knows no policies."""
