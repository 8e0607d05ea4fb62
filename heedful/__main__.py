"""`python -m heedful` is `heedful`."""

from heedful.cli import main

main()
