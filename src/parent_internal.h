/* What the parent's files share: parent.c (life, loop), parent_models.c (loading), parent_workers.c (workers and
 * front), parent_verify.c (placement checks). */
#ifndef WEIGHTD_PARENT_INTERNAL_H
#define WEIGHTD_PARENT_INTERNAL_H

#include "src/parent.h"

/* parent_models.c */
void models_load_next(struct parent *parent); /* starts the loader for the next waiting model, if none runs */
void models_loader_message(struct parent *parent, struct message *message);
void models_loader_ended(struct parent *parent, int wait_status);
void models_close(struct parent *parent); /* closes and unlinks all segments */

/* parent_workers.c */
void front_start(struct parent *parent);
void front_message(struct parent *parent, struct message *message);
void front_ended(struct parent *parent, int wait_status);
void front_tell_state(struct parent *parent);
void workers_start(struct parent *parent, uint32_t model); /* those of a freshly loaded model */
void worker_message(struct parent *parent, struct parent_worker *worker, struct message *message);
void worker_ended(struct parent *parent, struct parent_worker *worker, int wait_status);
void workers_restart_due(struct parent *parent, uint64_t now_ns);

/* parent_verify.c */
void verify_message(struct parent *parent, struct message *message);
void verify_ended(struct parent *parent, int wait_status);

/* parent.c */
void parent_announce(struct parent *parent); /* tells systemd once everything that can serve does */

#endif
