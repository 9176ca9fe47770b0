"""A claim as a file: fabric, job, faults, expectations; run in a world, judged, and reported."""
