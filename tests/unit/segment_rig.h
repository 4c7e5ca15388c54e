/* What the tests of segments share: an instance of this process' own, a node with memory, and published segments. */
#ifndef WEIGHTD_TESTS_SEGMENT_RIG_H
#define WEIGHTD_TESTS_SEGMENT_RIG_H

#include "shm/segment.h"

enum { RIG_PAYLOAD = (5 << 20) + 12345 };

/* Check's fixtures. The node is the first with memory, or $TEST_NODE where there are more (tests/guest/scenario). The
 * tear-down removes what the test left of the instance. */
void segment_rig_set_up(void);
void segment_rig_tear_down(void);

const char *segment_rig_instance(void);
unsigned segment_rig_node(void);

/* Of model "tiny.Q4_0", generation 3. */
struct segment_spec segment_rig_spec(enum segment_backing backing, uint64_t payload_bytes);
/* Byte `i` of a filled payload. */
unsigned char segment_rig_byte(uint64_t i);
void segment_rig_fill(struct segment *segment, uint64_t payload_bytes);
/* Makes and publishes a segment of RIG_PAYLOAD bytes; its descriptor returns owned. */
int segment_rig_publish(enum segment_backing backing, struct segment_report *report);

/* Objects of the instance in /dev/shm, whatever they are. */
unsigned segment_rig_left_behind(void);
unsigned segment_rig_descriptors(void);

#endif
