/* The models the front knows and the workers that serve them. */
#ifndef WEIGHTD_SRC_FRONT_FLEET_H
#define WEIGHTD_SRC_FRONT_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "src/config.h"
#include "src/front/worker.h"
#include "src/message.h"

/* A model stays known while its workers are being restarted: it is then not ready, rather than unknown. */
struct fleet_model {
	char name[128];
	uint64_t created; /* Unix seconds */
	uint32_t context_tokens;
	uint64_t prompt_tokens, generated_tokens; /* of calls that ended */
};

struct fleet {
	struct fleet_model model[CONFIG_MODELS_MAX];
	uint32_t n_models;
	struct front_worker *workers; /* list, owned */
};

/* A worker has come; one of the same index is replaced. Takes the descriptors. */
void fleet_worker_up(struct front *front, const struct message_worker_up *up, const struct channel_fds *fds);
/* A worker is gone: its calls fail. */
void fleet_worker_down(struct front *front, uint32_t index);

/* By name [n_bytes], the first one without a name; NULL. */
struct fleet_model *fleet_find_model(struct fleet *fleet, const char *name, size_t n_bytes);
/* The ready worker of that model with the fewest calls; NULL: none is ready. */
struct front_worker *fleet_choose(struct fleet *fleet, const struct fleet_model *model);

enum fleet_health { FLEET_OK, FLEET_NOT_READY, FLEET_STALLED };
/* Is there a ready worker of this model whose engine makes progress? */
enum fleet_health fleet_check(struct fleet *fleet, const struct fleet_model *model, uint64_t now_ns);

#endif
