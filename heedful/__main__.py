"""`python -m heedful` is `heedful`."""

from heedful.cli.main import main

main()
