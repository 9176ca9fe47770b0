"""Choices between sources, and values that no source gives: one constant each.

docs/wire.md lists them with their alternatives.  Choices about the layout of a header stand beside
its codec in hosts/wire.
"""

SACK_TRIGGER_BYTES = 16384
"""A SACK at least every so many bytes accepted (UEC, htsim; EMU-A has 4096, NS3 one per packet)."""

SACK_CREDIT_MIN_BYTES = 1024
"""What a packet counts for at least towards SACK_TRIGGER_BYTES (EMU-A, UEC)."""

REORDER_TOLERANCE_WINDOWS = 1.5
REORDER_TOLERANCE_MIN_PACKETS = 5
"""A missing packet is sent again when packets max(5, 1.5 cwnd) behind it have arrived (htsim SLEEK;
NS3: max(3, one BDP)).  It says nothing certain about the EV, which rests and is probed."""

REORDER_TOLERANCE_RTTS = 1.5
"""The same by time, where nothing follows that could be counted: what the answer to a probe lacks
is sent again if it was sent so many round trips before the probe (RACK, RFC 8985, allows a quarter;
here paths differ by what their queues hold)."""

EVIDENCE_MIN_PAYLOAD_BYTES = 512
"""Switches send packets that are shorter than the trim size past a full queue, so that they
overtake; only packets longer than any trim size (64 to 256 in the sources) prove order on a
path."""

DOUBT_PROBES = 3
"""Probes sent on an EV whose packet timed out before it is retired.  One would do if its answer
could not be lost; answers rotate over the planes of the way back, so three outlive a dead
one."""

TIMEOUT_RETIRES_AT_ONCE = False
"""PAPER: a loss without a trim retires at once.  Here the EV rests at once, and is retired when the
probes confirm it; True goes by the letter, and then lost SACKs retire EVs that are well."""

TRIM_CONSUMES_RETRIES = False
"""MANI, NS3: all retried NACK codes share the retry counter.  A trim proves that the peer is
alive, and in a large incast a packet is trimmed many times, so with finite budgets it must not
count."""

PROBE_REPLY_MARKED_TO_SKIP = True
"""ASSUMED_BAD, probe reply with m = SKIP_ONCE: to SKIP (MANI); False: to GOOD (EMU-A)."""

PROBE_REPLY_PATHS = 2
"""An answer to a reliability probe goes out so many times, on other planes or else on other EVs, so
that to lose all takes two failures."""

ABOVE_WINDOW_NACK = True
"""A PSN beyond the window: NACK PSN_OOR_WINDOW; False: dropped in silence (S3)."""

REVERSE_PROBE_PACKETS = 64
"""PAPER 2.4: one EV probe a round trip while data only comes in.  Here at most one for so many data
packets as well, so that hundreds of slow QPs do not probe more than they carry."""

REVERSE_PROBE_WAIT_RTTS = 3
"""Base RTTs after which such a probe counts as missed.  A wrong guess costs nothing: control
packets take another way until an answer comes."""

REVERSE_PLANE_MISSES_MAX = 2
"""Unanswered EV probes in a row after which a plane carries no control packets for a while."""

PORT_STATUS_REPEAT_MAX_NS = 1_000_000_000
"""A port status is repeated until answered, at intervals that double from the RTO up to this."""

AETH_MSN_OFFSET = 0
"""AETH.MSN is the number of messages completed, modulo 2^24, as IBTA counts (first message: 1).
With
-1 it is the MSN of the last one completed, as METH counts."""
