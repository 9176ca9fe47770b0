"""BMv2's simple_switch_grpc as a back end: the reference our own engine is compared with.

What it cannot do is refused or said (`docs/fidelity.md`): no delay, rates in packets per second,
queue depths in packets, random numbers without a seed.
"""
