"""VolumeBinding: claims get their volumes where the pod goes."""
