"""The same numbers sooner: twins of plain modules, each proven equal by a test. Two late imports lead here."""
