"""A trained model as a folder that other libraries load. What a format cannot say is refused by name."""
