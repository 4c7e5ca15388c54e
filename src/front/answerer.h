/* Who makes a connection's answer: what a connection's answerer points to. */
#ifndef WEIGHTD_SRC_FRONT_ANSWERER_H
#define WEIGHTD_SRC_FRONT_ANSWERER_H

struct answerer {
	void (*gone)(struct answerer *answerer); /* its client is: nothing may be written any more */
};

#endif
