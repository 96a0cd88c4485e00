"""Value functions: how a reply is compared with the base generation."""
