"""The same numbers sooner: twins of the plain code, each equal to it by a test. Nobody needs it to understand."""
