/* The processes of the daemon. Each main takes its orders from the parent over descriptor MESSAGE_FD and returns the
 * process' exit status. */
#ifndef WEIGHTD_ROLES_H
#define WEIGHTD_ROLES_H

int loader_main(void);	 /* one model load: file -> segments */
int worker_main(void);	 /* calls over one copy of one model */
int front_main(void);	 /* clients */
int audio_main(void);	 /* audio files of clients -> rows of log-mel */
int verifier_main(void); /* placement of published segments, on request */

#endif
