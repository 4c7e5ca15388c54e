/* Opening a segment's name for the first time. Private to shm/. */
#ifndef WEIGHTD_SHM_SEGMENT_NAME_H
#define WEIGHTD_SHM_SEGMENT_NAME_H

#include "shm/segment.h"

/* Makes the object `name`, mode 0600, and opens it for writing. Where another user has taken the name, it is salted and
 * tried again: `name` is then what was made. -EEXIST when this very user has an object of the name. */
int segment_open_new(char name[SEGMENT_NAME_BYTES], int *fd);

#endif
