"""Work on text that is too much for one process, in parts that are done in any order on any machine."""
