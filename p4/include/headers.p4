// What is on the wire, and what a packet carries from one stage of the switch to the next.
//
//   SRv6 mode        Ethernet | IPv6, destination = uSID list | IPv6 of the NICs | UDP | MRC ...
//   structured, ECMP Ethernet | IPv6 of the NICs | UDP | MRC ...
//
// The switch reads nothing beyond UDP: MRC itself is the business of the NICs.

#ifndef HEADERS_P4
#define HEADERS_P4

const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<8>  NEXT_HEADER_UDP  = 17;
const bit<8>  NEXT_HEADER_IPV6 = 41;

// Differentiated services code points. MRC leaves the numbers open; these are the testbed's
// (hosts/wire/dscp.py; a test holds the two equal).
@noWarn("unused")
const bit<6> DSCP_NO_TRIM          = 0;   // data that is dropped when a queue is full
const bit<6> DSCP_TRIMMABLE        = 4;   // data that is trimmed instead
const bit<6> DSCP_TRIMMABLE_RETX   = 8;   // the same, sent again
const bit<6> DSCP_TRIMMED          = 12;  // cut between switches
const bit<6> DSCP_TRIMMED_LASTHOP  = 16;  // cut on the way out to a NIC
const bit<6> DSCP_CONTROL          = 46;  // SACK, NACK, ACK

// RFC 3168 section 5.
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE      = 3;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv6_t     ipv6;        // the outermost: what switches route on
    ipv6_t     inner_ipv6;  // SRv6 mode only
    udp_t      udp;
}

// Why this switch gave up a packet: the index of the counter `drops`. Losses of the traffic
// manager (queue full, link down) are its own to count: the P4 program does not see them.
enum bit<8> drop_t {
    NONE          = 0,
    MALFORMED     = 1,  // ends within a header
    NOT_IPV6      = 2,
    ARGUMENT_ZERO = 3,  // the uSID list ends here, and a switch is nobody's destination
    HOP_LIMIT     = 4,
    NO_ROUTE      = 5,
    NO_UPLINK     = 6,  // the entropy value names an uplink that this switch does not have
    FAULT         = 7   // a row of the table `fault`
}
const bit<32> DROP_REASONS = 8;

typedef bit<19> depth_t;  // packets in a queue, as wide as v1model's enq_qdepth and deq_qdepth

// Queues of a port. The larger number is served strictly first.
const bit<3> DATA_QUEUE    = 0;
const bit<3> CONTROL_QUEUE = 1;

struct metadata_t {
    drop_t  drop;
    bit<32> ev;               // entropy value: flow label (low 16 bits), UDP source port

    // Configuration of the egress port; zero switches a feature off.
    bit<1>  host_facing;      // the next node is a NIC
    depth_t trim_threshold;   // packets in the data queue from which on packets are trimmed
    bit<16> trim_size;        // bytes of frame that a trimmed packet keeps
    bit<1>  rewrite_length;   // whether its IPv6 payload length then says so
    depth_t ecn_low;          // packets up to which no packet is marked
    depth_t ecn_high;         // packets from which on every packet is marked

    bool    trimmed;          // by this switch
}

#endif
