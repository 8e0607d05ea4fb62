"""Charts as SVG and PNG; they know no experiment."""
