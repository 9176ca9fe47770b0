"""What may stand in a topology file, and the quantity types every schema uses."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, WithJsonSchema

from topologies import units
from topologies.model import FabricSpec


def _pattern(names: dict[str, int]) -> dict[str, str]:
    return {"type": "string", "pattern": rf"^\d+(\.\d+)? ?({'|'.join(names)})$"}


Rate = Annotated[int, BeforeValidator(units.rate_bps), WithJsonSchema(_pattern(units.RATE_UNITS))]
"""Bits a second."""

Duration = Annotated[
    int, BeforeValidator(units.duration_ns), WithJsonSchema(_pattern(units.TIME_UNITS))
]
"""Nanoseconds."""

Size = Annotated[int, BeforeValidator(units.size_bytes), WithJsonSchema(_pattern(units.SIZE_UNITS))]
"""Bytes."""

Count = Annotated[StrictInt, Field(ge=1, le=1 << 20)]


class Strict(BaseModel):
    """Unknown keys are errors; values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Topology(Strict):
    """A multi-plane Clos fabric in numbers."""

    planes: Count = Field(description="parallel fabrics; every NIC has one port in each, 1 to 8")
    t0: Count = Field(description="T0 switches in each plane, one a rack")
    t1: Count = Field(description="T1 switches in each plane; every T0 is linked to every T1")
    hosts_per_t0: Count = Field(description="hosts in a rack")
    rate: Rate = Field(default=10_000_000, description="of every link, bits of frame a second")
    delay: Duration = Field(default=200_000, description="propagation of one link")
    pmtu: Count = Field(default=4096, description="payload bytes of a full packet")

    def spec(self) -> FabricSpec:
        return FabricSpec(
            planes=self.planes,
            t0=self.t0,
            t1=self.t1,
            hosts_per_t0=self.hosts_per_t0,
            rate_bps=self.rate,
            delay_ns=self.delay,
            pmtu=self.pmtu,
        )
