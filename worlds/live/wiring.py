"""The fabric as a Mininet network: nodes, names, `cmd`, links, prompt.  Only importer of Mininet.

What Mininet does one after the other with a process each, this does in batches: a node is a network
namespace held by a descriptor, all links are made by a few netlink messages, and the shell behind
`node.cmd(...)` starts when it is first used.  Mininet's `init` (which writes host-wide limits) is
never called.
"""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Self

from mininet.cli import CLI
from mininet.link import Intf, Link
from mininet.log import error, output
from mininet.net import Mininet
from mininet.node import Node

from topologies import addressing, builders
from topologies.model import Fabric, PortRef
from worlds.live.namespace import Namespace
from worlds.live.netlink import End, Netlink
from worlds.live.offloads import Offloads

FIRST_INDEX = 100
"""Interface indexes count up from here over the whole fabric; loopback has 1 everywhere."""

_IN_OWN_MOUNTS = 'mount -t sysfs sysfs /sys 2>/dev/null; exec "$@"'
"""So that /sys/class/net shows the node's own interfaces, as under Mininet."""


class NamespaceNode(Node):  # type: ignore[misc]
    """A Mininet node that is a namespace first, and a shell only once somebody talks to it."""

    portBase = 0

    def __init__(self, name: str, namespace: Namespace, **params: Any) -> None:
        self.namespace = namespace
        self._shell_wanted = False
        self._shell_pid: int | None = None
        super().__init__(name, **params)
        self._shell_wanted = True

    @property
    def pid(self) -> int | None:
        """Of the shell, by which Mininet's tools find the namespace; starts it."""
        self._need_shell()
        return self._shell_pid

    @pid.setter
    def pid(self, value: int | None) -> None:
        self._shell_pid = value

    def startShell(self, mnopts: str | None = None) -> None:
        """Not yet, when called by the constructor."""
        if self._shell_wanted and not self.shell:
            self._shell_wanted = False
            self.inNamespace = False  # we are in it already; Mininet would make another
            with self.namespace.entered():
                super().startShell(mnopts)
            self.inNamespace = True

    def _popen(self, cmd: Sequence[str], **params: Any) -> "subprocess.Popen[bytes]":
        if cmd[:2] == ["mnexec", "-cd"] and cmd[2] == "env":
            cmd = [*cmd[:2], "unshare", "--mount", "sh", "-c", _IN_OWN_MOUNTS, "sh", *cmd[2:]]
        return super()._popen(cmd, **params)  # type: ignore[no-any-return]

    def _need_shell(self) -> None:
        if self._shell_wanted and not self.shell:
            self.startShell()

    def cmd(self, *args: Any, **kwargs: Any) -> str:
        self._need_shell()
        return super().cmd(*args, **kwargs)  # type: ignore[no-any-return]

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:
        self._need_shell()
        super().sendCmd(*args, **kwargs)

    def start(self, _controllers: Sequence[object] = ()) -> None:
        """Nothing: the process of a switch is started by the world."""


class VethIntf(Intf):  # type: ignore[misc]
    """An interface known by its index; up and down go over netlink, the rest as in Mininet."""

    def __init__(self, name: str, index: int = 0, **params: Any) -> None:
        self.index = index
        super().__init__(name, **params)

    def config(self, **_params: Any) -> dict[str, Any]:
        """Nothing: it was made as it has to be."""
        return {}

    def ifconfig(self, *args: str) -> str:
        if args in (("up",), ("down",)):
            self.set_up(args[0] == "up")
            return ""
        return super().ifconfig(*args)  # type: ignore[no-any-return]

    def set_up(self, up: bool) -> None:
        """Raises OSError if the kernel refuses."""
        self.node.namespace.netlink.set_up([self.index], up)

    def delete(self) -> None:
        self.node.namespace.netlink.delete(self.index)
        self.node.delIntf(self)
        self.link = None


class VethLink(Link):  # type: ignore[misc]
    """A link whose veth pair `Wiring` has made in a batch."""

    intf1: VethIntf | None
    intf2: VethIntf | None

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_kwargs: Any) -> None:
        """Nothing: it is there already."""

    def delete(self) -> None:
        near, far = self.intf1, self.intf2
        if near is not None and far is not None:
            far.node.delIntf(far)  # goes with its peer
            near.delete()
            self.intf1 = self.intf2 = None


Mininet.inited = True
"""Makes Mininet.init() a no-op: it would write the machine's sysctls (`fixLimits`)."""


class Prompt(CLI):  # type: ignore[misc]
    """Mininet's prompt, and the counters of the interfaces."""

    prompt = "mrc-testbed> "

    def do_counters(self, line: str) -> None:
        """Frames by interface, of all nodes or of those named: counters [NODE ...]"""
        output(f"{'interface':16}{'up':>4}{'rx':>12}{'tx':>12}{'tx_dropped':>12}\n")
        for name in line.split() or sorted(self.mn.nameToNode):
            if name not in self.mn.nameToNode:
                error(f"no node {name}\n")
                continue
            for state in self.mn[name].namespace.netlink.interfaces():
                frames = (state.stats[key] for key in ("rx_packets", "tx_packets", "tx_dropped"))
                row = "".join(f"{count:12}" for count in frames)
                output(f"{state.name:16}{'yes' if state.carrier else 'no':>4}{row}\n")


class Wiring:
    """All namespaces and links of a fabric, up, silent, with offloads off.

    Raises WorldUnavailable (no IPv6 switch, offloads that stay on) and OSError.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.net = Mininet(topo=None, controller=None, build=False, link=VethLink, intf=VethIntf)
        self._ends: dict[PortRef, End] = {}
        self._namespaces: dict[str, Namespace] = {}
        try:
            for node in _node_names(fabric):
                self._namespaces[node] = Namespace.make()
            self._name_ends()
            self._make_links()
            self._tell_mininet()
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, fabric: Fabric, namespaces: Mapping[str, str]) -> Self:
        """The wiring that somebody else has made: by node, a path to its namespace."""
        wiring = cls.__new__(cls)
        wiring.fabric = fabric
        wiring.net = Mininet(topo=None, controller=None, build=False, link=VethLink, intf=VethIntf)
        wiring._ends = {}
        wiring._namespaces = {}
        for node in _node_names(fabric):
            wiring._namespaces[node] = Namespace.at(namespaces[node])
        wiring._name_ends()
        wiring._tell_mininet()
        return wiring

    @property
    def nodes(self) -> list[str]:
        return list(self._namespaces)

    def namespace(self, node: str) -> Namespace:
        return self._namespaces[node]

    def interfaces(self, node: str) -> dict[int, End]:
        """By port number, in order."""
        return {
            end.port: made
            for end, made in sorted(self._ends.items(), key=lambda item: item[0].port)
            if end.node == node
        }

    def set_up(self, node: str, ports: Sequence[int], up: bool) -> None:
        """Take interfaces of one node up or down; their peers see the carrier come or go."""
        indexes = [self._ends[PortRef(node, port)].index for port in ports]
        self._namespaces[node].netlink.set_up(indexes, up)

    def prompt(self) -> None:
        """Mininet's command line, until the user leaves it."""
        Prompt(self.net)

    def close(self) -> None:
        """End the shells and let go of the namespaces.  Idempotent."""
        for node in self.net.values():
            node.terminate()
        self.net.hosts, self.net.switches, self.net.links = [], [], []
        for namespace in self._namespaces.values():
            namespace.close()

    def _name_ends(self) -> None:
        index = FIRST_INDEX
        for link in self.fabric.links:
            for end in (link.lower, link.upper):
                self._ends[end] = End(
                    self._namespaces[end.node].fd,
                    addressing.interface_name(end.node, end.port),
                    index,
                    self._mac(end),
                )
                index += 1

    def _make_links(self) -> None:
        pairs = [(self._ends[link.lower], self._ends[link.upper]) for link in self.fabric.links]
        netlink = Netlink()
        netlink.make_links(pairs, builders.link_mtu(self.fabric.spec))
        netlink.close()
        self._turn_offloads_off()
        for node, ports in self._upper_ports().items():
            self.set_up(node, ports, up=True)

    def _turn_offloads_off(self) -> None:
        offloads = Offloads()
        for end, made in self._ends.items():
            offloads.turn_off(self._namespaces[end.node].socket, made.name)

    def _upper_ports(self) -> dict[str, list[int]]:
        ports: dict[str, list[int]] = {}
        for link in self.fabric.links:
            ports.setdefault(link.upper.node, []).append(link.upper.port)
        return ports

    def _tell_mininet(self) -> None:
        for host in self.fabric.hosts:
            namespace = self._namespaces[host.name]
            self.net.addHost(host.name, cls=NamespaceNode, namespace=namespace, ip=None)
        for switch in self.fabric.switches:
            namespace = self._namespaces[switch.name]
            self.net.addSwitch(
                switch.name, cls=NamespaceNode, namespace=namespace, inNamespace=True
            )
        for link in self.fabric.links:
            lower, upper = self._ends[link.lower], self._ends[link.upper]
            self.net.addLink(
                link.lower.node,
                link.upper.node,
                port1=link.lower.port,
                port2=link.upper.port,
                addr1=lower.mac.hex(":"),
                addr2=upper.mac.hex(":"),
                params1={"index": lower.index},
                params2={"index": upper.index},
            )
        self.net.built = True

    def _mac(self, end: PortRef) -> bytes:
        if self.fabric.is_host(end.node):
            return addressing.host_mac(self.fabric.host(end.node), end.port)
        return addressing.switch_mac(self.fabric.switch(end.node), end.port)


def _node_names(fabric: Fabric) -> list[str]:
    return [host.name for host in fabric.hosts] + [switch.name for switch in fabric.switches]


class _BareSwitch(Node):  # type: ignore[misc]
    """A namespace with a shell, as Mininet's own: what a switch process would run in."""

    portBase = 0

    def start(self, _controllers: Sequence[object] = ()) -> None: ...


def stock_mininet(fabric: Fabric) -> Mininet:
    """The same nodes and links by Mininet's own means, with nothing on them; for comparison."""
    net = Mininet(topo=None, controller=None, build=False)
    for host in fabric.hosts:
        net.addHost(host.name, cls=Node)
    for switch in fabric.switches:
        net.addSwitch(switch.name, cls=_BareSwitch, inNamespace=True)
    for link in fabric.links:
        lower, upper = link.lower, link.upper
        net.addLink(lower.node, upper.node, port1=lower.port, port2=upper.port)
    net.build()
    net.start()
    return net
