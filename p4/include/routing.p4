// Where a packet goes: one forwarding table, three ways to fill it.
//
//   SRv6        the sender wrote the whole path into the destination address. Each switch takes its
//               own uSID off the front (usid_node) and looks up the next (fib, /48).
//   structured  the packet carries the NIC's address. Going up, fib says which bits of the entropy
//               value are this tier's and name the uplink (spread_by_ev); going down, fib forwards.
//   ECMP        as structured, but a salted hash picks the uplink (spread_by_hash).
//
// All tables are written once, when the fabric is built. Nothing here ever recomputes a route.

#ifndef ROUTING_P4
#define ROUTING_P4

#include "headers.p4"

const bit<8> USID_BITS = 16;

control Routing(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    bool    to_neighbour = false;  // an adjacency was named: the forwarding table is not asked
    bool    spread = false;        // several uplinks lead there: `uplink_index` picks one
    bit<16> uplink_index = 0;

    // NEXT-C-SID (RFC 9800, F3216: block 32 bits, uSIDs of 16): the block stays, the list moves up.
    action next_usid() {
        hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ (hdr.ipv6.dst[95:0] << USID_BITS);
    }

    action forward(PortId_t port, bit<48> src_mac, bit<48> dst_mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
    }

    action no_route() {
        meta.drop = drop_t.NO_ROUTE;
    }

    action no_uplink() {
        meta.drop = drop_t.NO_UPLINK;
    }

    // --- the uSID of this switch: End with NEXT-C-SID

    action uN() {
        next_usid();
    }

    table usid_node {
        key = { hdr.ipv6.dst[127:80]: exact @name("sid"); }
        actions = { uN; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // --- the uSID of one of its links: End.X with NEXT-C-SID

    action uA(PortId_t port, bit<48> src_mac, bit<48> dst_mac) {
        next_usid();
        forward(port, src_mac, dst_mac);
        to_neighbour = true;
    }

    table usid_adjacency {
        key = { hdr.ipv6.dst[127:80]: exact @name("sid"); }
        actions = { uA; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // --- everything else

    action spread_by_ev(bit<8> shift, bit<16> mask) {
        uplink_index = (bit<16>)(meta.ev >> shift) & mask;
        spread = true;
    }

    action spread_by_hash(bit<32> salt, bit<16> uplink_count) {
        hash(uplink_index, HashAlgorithm.crc32, 16w0,
             { salt, hdr.ipv6.src, hdr.ipv6.dst, meta.ev }, uplink_count);
        spread = true;
    }

    table fib {
        key = { hdr.ipv6.dst: lpm @name("dst"); }
        actions = { forward; spread_by_ev; spread_by_hash; no_route; }
        default_action = no_route();
        size = 4096;
    }

    table uplink {
        key = { uplink_index: exact @name("index"); }
        actions = { forward; no_uplink; }
        default_action = no_uplink();
        size = 512;
    }

    apply {
        bool ours = false;
        if (usid_node.apply().hit) {
            ours = true;
        }
        if (usid_adjacency.apply().hit) {
            ours = true;
        }

        // The order of RFC 9800 section 4.1.1: first the argument (which has moved to the front by
        // now), then the hop limit, then the lookup.
        if (ours && hdr.ipv6.dst[95:0] == 0) {
            meta.drop = drop_t.ARGUMENT_ZERO;
        } else if (hdr.ipv6.hop_limit <= 1) {
            meta.drop = drop_t.HOP_LIMIT;
        } else {
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
            if (!to_neighbour) {
                fib.apply();
            }
            if (spread) {
                uplink.apply();
            }
        }
    }
}

#endif
