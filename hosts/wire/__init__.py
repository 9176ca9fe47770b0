"""What MRC looks like on the wire: one header a file, `packet` alone knows their order.

Every header is a frozen value with `LENGTH`, `parse(buffer, offset)` and `emit()`; multi-byte
fields are big-endian.  Reserved bits are sent as zero and ignored on receipt.  Too few bytes raise
`WireError("short")`.  Sections cited as "facts 2.x" are those of `docs/wire.md`.
"""
