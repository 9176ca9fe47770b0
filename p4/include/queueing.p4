// Which queue a packet takes, and whether it is cut before.
//
// A data packet that finds its queue at the threshold is trimmed: its payload goes, its headers
// travel on in the control queue, and the receiver asks for it again one round trip later instead
// of after a timeout.
//
// v1model tells the depth of a queue only after a packet has left it, and the decision is due
// before it enters. So ingress keeps count: `data_depth` goes up by one with each packet admitted
// and is set to the truth at each departure.

#ifndef QUEUEING_P4
#define QUEUEING_P4

#include "headers.p4"

const bit<32> PORTS = 512;
const bit<16> ETHERNET_AND_IPV6_BYTES = 54;

register<depth_t, PortId_t>(PORTS) data_depth;

// Ingress half.
control Admission(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    depth_t depth;

    // SAI_PORT_STAT_TRIM_PACKETS, in SONiC's counters.
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) trim;

    action set_port(bit<1> host_facing, depth_t trim_threshold, bit<16> trim_size,
                    bit<1> rewrite_length, depth_t ecn_low, depth_t ecn_high) {
        meta.host_facing = host_facing;
        meta.trim_threshold = trim_threshold;
        meta.trim_size = trim_size;
        meta.rewrite_length = rewrite_length;
        meta.ecn_low = ecn_low;
        meta.ecn_high = ecn_high;
    }

    table port {
        key = { standard_metadata.egress_spec: exact @name("port"); }
        actions = { set_port; NoAction; }
        default_action = NoAction();
        size = PORTS;
    }

    action to_control_queue() {
        standard_metadata.priority = CONTROL_QUEUE;
    }

    action to_data_queue() {
        standard_metadata.priority = DATA_QUEUE;
        data_depth.write(standard_metadata.egress_spec, depth + 1);
    }

    // Only the outer header changes: the NIC reads it before it takes it off.
    action cut() {
        truncate((bit<32>)meta.trim_size);
        trim.count(standard_metadata.egress_spec);
        meta.trimmed = true;
    }

    apply {
        port.apply();

        if (hdr.ipv6.dscp == DSCP_CONTROL || hdr.ipv6.dscp == DSCP_TRIMMED
                || hdr.ipv6.dscp == DSCP_TRIMMED_LASTHOP) {
            to_control_queue();
        } else {
            bool trimmable = hdr.ipv6.dscp == DSCP_TRIMMABLE
                || hdr.ipv6.dscp == DSCP_TRIMMABLE_RETX;
            data_depth.read(depth, standard_metadata.egress_spec);

            if (trimmable && meta.trim_threshold != 0 && depth >= meta.trim_threshold) {
                to_control_queue();
                // A packet that has nothing to lose keeps its code point and stays whole.
                if (standard_metadata.packet_length > (bit<32>)meta.trim_size) {
                    cut();
                    hdr.ipv6.dscp = meta.host_facing == 1 ? DSCP_TRIMMED_LASTHOP : DSCP_TRIMMED;
                    if (meta.rewrite_length == 1) {
                        hdr.ipv6.payload_length = meta.trim_size - ETHERNET_AND_IPV6_BYTES;
                    }
                }
            } else {
                to_data_queue();
            }
        }
    }
}

// Egress half.
control Departure(in metadata_t meta, in standard_metadata_t standard_metadata) {
    // SAI_PORT_STAT_TX_TRIM_PACKETS. The third, trims dropped for want of room, is counted where
    // they are: by the traffic manager.
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) trim_sent;

    apply {
        if (standard_metadata.priority == DATA_QUEUE) {
            data_depth.write(standard_metadata.egress_port, standard_metadata.deq_qdepth);
        }
        if (meta.trimmed) {
            trim_sent.count(standard_metadata.egress_port);
        }
    }
}

#endif
