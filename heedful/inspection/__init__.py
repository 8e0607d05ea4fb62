"""What a trained model did: attention, heads, the calculation, pictures, doctor. It knows no HTTP."""
