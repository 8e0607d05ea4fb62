"""Table 3 as settings: presets, TOML in and out, the learning rate of each step. It knows neither text nor torch."""
