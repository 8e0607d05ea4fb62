"""The paper's claims as experiments: predictions first, then rows to train, tables, pictures. It knows no HTTP."""
