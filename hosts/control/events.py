"""EV events (mrc_ctl.h): a state change of an EV of a profile, told to the controller."""

from dataclasses import dataclass, replace

from hosts.control.constants import EvState
from hosts.control.profiles import Ev
from hosts.verbs.cq import Queue


@dataclass(frozen=True, slots=True)
class EvEvent:
    """struct mrc_ctl_ev_event.  drop_count: events lost between the one before and this."""

    profile_id: int
    ev: Ev
    drop_count: int
    state: EvState


class EvEventCq(Queue[EvEvent]):
    """mrc_ctl_create_ev_event_cq.  It is not overrun: when full, events are dropped and counted."""

    _dropped = 0

    def tell(self, event: EvEvent) -> None:
        if self.is_full:
            self._dropped += 1
            return
        self._add(replace(event, drop_count=self._dropped))
        self._dropped = 0
