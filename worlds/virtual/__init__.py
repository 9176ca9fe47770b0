"""The virtual world: an event heap instead of a clock, in-process links instead of veths."""
