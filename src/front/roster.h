/* The adapters that calls may name. A name leads to the bytes it stands for at that moment: whoever makes a call holds
 * these (roster_hold), and the call keeps them whatever the name means later. What is unloaded or replaced can't be
 * found any more; once its last call has ended the parent is told, so that workers let go of it. */
#ifndef WEIGHTD_SRC_FRONT_ROSTER_H
#define WEIGHTD_SRC_FRONT_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/message.h"

struct front_adapter {
	struct front_adapter *next; /* of the roster's list, oldest first */
	struct roster *roster;	    /* borrows */
	struct message_adapter_up is;
	bool retired;	    /* for those that hold it alone */
	uint32_t n_holders; /* calls, and requests whose calls are still to be made */
	uint64_t n_total;   /* calls made with this name since it is loaded, whatever it stood for */
};

struct roster {
	struct front_adapter *first; /* list, owned */
	bool (*idle)(uint32_t id);   /* tells the parent that no call is left; false: it could not be told now */
};

void roster_fini(struct roster *roster);

/* Takes the place of another of this name. -ENOMEM, -EPROTO. */
int roster_up(struct roster *roster, const struct message_adapter_up *up);
void roster_down(struct roster *roster, uint32_t id);
/* By name [n_bytes], those that can be named now; NULL. View, valid until the roster is changed. */
struct front_adapter *roster_find(const struct roster *roster, const char *name, size_t n_bytes);

/* A call or its request begins or ends; both take NULL. */
struct front_adapter *roster_hold(struct front_adapter *adapter);
void roster_release(struct front_adapter *adapter);
/* Tells again of those the parent could not be told of. */
void roster_sweep(struct roster *roster);

#endif
