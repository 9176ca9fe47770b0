"""The arithmetic of the real thing (paper section 2 and table 1), for docs and tests to cite.

A switch of a given capacity is split into ports of one plane's rate; a two-tier plane gives each
T0 half its ports down and half up.
"""

from dataclasses import dataclass
from fractions import Fraction

SWITCH_BPS = 51_200_000_000_000
NIC_BPS = 800_000_000_000


@dataclass(frozen=True, slots=True)
class MultiPlane:
    """A two-tier fabric of `planes` planes built from switches of `switch_bps`."""

    planes: int
    switch_bps: int = SWITCH_BPS
    nic_bps: int = NIC_BPS

    @property
    def port_bps(self) -> int:
        return self.nic_bps // self.planes

    @property
    def radix(self) -> int:
        return self.switch_bps // self.port_bps

    @property
    def t0_downlinks(self) -> int:
        return self.radix // 2

    @property
    def nics(self) -> int:
        """T0s per plane (one on every T1 port) times the downlinks of each."""
        return self.radix * self.t0_downlinks

    @property
    def switch_count(self) -> int:
        """Over all planes: radix T0s and radix/2 T1s in each."""
        return self.planes * (self.radix + self.radix // 2)

    @property
    def optics_per_nic_bandwidth(self) -> int:
        """Transceiver ends per NIC, in units of one NIC's bandwidth: NIC, T0 down, T0 up, T1."""
        return 4

    @property
    def t0_uplink_share(self) -> Fraction:
        """Of a T0's uplink capacity in its plane, over all planes, lost with one T0-T1 link."""
        return Fraction(1, self.t0_downlinks)

    @property
    def nic_link_share(self) -> Fraction:
        """Of a NIC's capacity, lost with one NIC-T0 link."""
        return Fraction(1, self.planes)


@dataclass(frozen=True, slots=True)
class ThreeTier:
    """The single-plane three-tier fat tree that carries the same NICs at full rate."""

    switch_bps: int = SWITCH_BPS
    nic_bps: int = NIC_BPS

    @property
    def radix(self) -> int:
        return self.switch_bps // self.nic_bps

    @property
    def nics(self) -> int:
        return self.radix**3 // 4

    def switch_count(self, nics: int) -> Fraction:
        """Switches for that many NICs: 5 k^2 / 4 of radix k carry k^3 / 4 NICs."""
        return Fraction(5 * nics, self.radix)

    @property
    def optics_per_nic_bandwidth(self) -> int:
        """NIC, T0 down, T0 up, T1 down, T1 up, T2."""
        return 6

    @property
    def t0_uplink_share(self) -> Fraction:
        return Fraction(1, self.radix // 2)
