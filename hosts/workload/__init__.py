"""Jobs that hosts run: what is sent to whom, and whether it arrived as sent."""
