// From bytes to headers and back.
//
// A frame that ends within a header leaves standard_metadata.parser_error set.

#ifndef PARSER_P4
#define PARSER_P4

#include "headers.p4"

parser MrcParser(packet_in packet,
                 out headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            NEXT_HEADER_IPV6: inner_ipv6;
            NEXT_HEADER_UDP: udp;
            default: accept;
        }
    }

    state inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition select(hdr.inner_ipv6.next_header) {
            NEXT_HEADER_UDP: udp;
            default: accept;
        }
    }

    // The sender copies the inner flow label to the outer header, so that one place is enough.
    state udp {
        packet.extract(hdr.udp);
        meta.ev = hdr.ipv6.flow_label[15:0] ++ hdr.udp.src_port;
        transition accept;
    }
}

control MrcDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.udp);
    }
}

// IPv6 has no header checksum, and MRC sends UDP with checksum 0.
control NoChecksumToVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control NoChecksumToCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

#endif
