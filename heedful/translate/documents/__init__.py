"""Texts of more than one line: their paragraphs, and HTML with its elements."""
