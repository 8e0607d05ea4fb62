"""heedful: the system of "Attention Is All You Need", from two text files to a translator.

Names are imported when they are first used (PEP 562), so that `heedful --help` does not wait for torch.
"""

__version__ = "0.1.0"
