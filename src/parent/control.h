/* The control socket: one line in, one JSON object out, closed. For weightctl; only the daemon's own user and root may
 * connect (checked with SO_PEERCRED besides the socket's mode).
 *
 *   status    a fresh placement check, then the state of everything     stop    begins an orderly stop
 *   verify    the same, however long the check takes
 *   overview  the same state at once, with placement as it was last checked: cheap enough for once a second
 *   bench PROMPT GENERATE STREAMS DEPTH    has an idle worker measure itself
 *   quality TOKEN TOKEN ...                has one judge its numerics by a text
 *   adapter load NAME MODEL PATH           answered when it is served; MODEL -: the only one; a name that is taken
 *                                          gets the new bytes
 *   adapter unload NAME
 *   load NAME PATH            serves another model; answered when it is served, or why it is not
 *   reload NAME               reads the model's files again; answered as load is
 *   repair NAME               replaces a model's or an adapter's copies of which pages are known to be on other nodes by
 *                             new ones, made in memory; answered as load is
 *   unload NAME               answered at once; calls that run go on
 */
#ifndef WEIGHTD_CONTROL_H
#define WEIGHTD_CONTROL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/err.h"

struct parent;
struct control;

enum { CONTROL_CLIENTS_MAX = 16 };

int control_new(struct parent *parent, int listener, struct control **out, struct err *err); /* takes the listener */
void control_free(struct control *control);

/* Fills up to CONTROL_CLIENTS_MAX + 1 entries; returns how many. */
unsigned control_poll_fds(struct control *control, struct pollfd *out);
/* Deals with the same entries after poll. */
void control_serve(struct control *control, const struct pollfd *fds, unsigned n);
/* Answers those who waited for a placement check. */
void control_verified(struct control *control);
/* Answers the one who waited for a measurement. Takes `text`, [n], from malloc; NULL: no memory. */
void control_benched(struct control *control, char *text, size_t n);
/* Answers the one who wished for a change of adapters or models, with the number that was given for him. */
void control_wish_done(struct control *control, uint64_t ticket, bool well, const char *text);

#endif
