"""Tables and figures made from result files; nothing here needs torch."""
