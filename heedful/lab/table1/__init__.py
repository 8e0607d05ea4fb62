"""Table 1 measured: what layers cost and how far apart positions are; it trains nothing."""
