"""Table 3 as settings: presets, TOML in and out, and the line of a mistake. It knows neither text nor torch."""
