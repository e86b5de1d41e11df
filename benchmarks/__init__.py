"""Side by side with peers and with the machine's limits, as ratios in one run: `python -m benchmarks`."""
