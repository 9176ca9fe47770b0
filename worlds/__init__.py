"""Where nodes get a clock and wires: once virtual, once live.  Nothing below a world has either."""
