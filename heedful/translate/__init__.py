"""§6.1: search, engines, text in and text out, word alignment, exports. It knows nothing of training."""
