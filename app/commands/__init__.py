"""One file per subcommand of the command line; none of them imports Qt."""
