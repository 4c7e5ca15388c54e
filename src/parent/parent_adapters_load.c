/* Loading adapters: one loader process at a time, of its own, so that an adapter never waits for a large model. Its
 * segments are made like a model's: on every node with a copy, bound, proven and hashed. They bear the adapter's name
 * and its id as their generation, so that old and new bytes of a name lie beside each other. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/log.h"

const struct parent_adapter *adapter_served(const struct parent *parent, const char *name)
{
	const struct parent_adapter *a = parent->adapters;
	while (a && (a->state != ADAPTER_SERVED || strcmp(a->name, name)))
		a = a->next;
	return a;
}

void adapter_drop_copies(struct parent *parent, struct parent_adapter *adapter)
{
	struct err err;
	if (adapter->state == ADAPTER_WAITING || adapter->state == ADAPTER_FAILED)
		return;
	for (uint32_t i = 0; i < adapter->n_copies; i++)
		close(adapter->copies[i].fd);
	adapter->n_copies = 0;
	/* By name: also what a loader that was killed never reported. */
	if (segment_remove_generation(parent->config.instance, adapter->name, adapter->id, &err) < 0)
		log_warning("adapter '%s': %s", adapter->name, err.text);
}

/* A good one; without any, a degraded one: what it says is as right as ever. */
static const struct parent_copy *copy_to_copy(const struct parent_adapter *adapter)
{
	for (uint32_t i = 0; i < adapter->n_copies; i++)
		if (!copy_is_degraded(&adapter->copies[i]))
			return &adapter->copies[i];
	return &adapter->copies[0];
}

/* More copies of what is served: one segment in place of a base and files. */
static int order_again(const struct parent *parent, const struct parent_adapter *adapter, struct message_load *order,
		       struct err *err)
{
	const struct parent_adapter *served = adapter_served(parent, adapter->name);
	if (!served)
		return err_set(err, -ESTALE, "it was unloaded meanwhile");
	order->n_files = 1;
	int rc = message_send(parent->adapter_loader.fd, MESSAGE_COPY, order, sizeof *order, &copy_to_copy(served)->fd,
			      1);
	return rc ? err_set(err, rc, "cannot give the loader its order: %s", strerror(-rc)) : 0;
}

static int order(struct parent *parent, const struct parent_adapter *adapter, struct err *err)
{
	struct message_load order;
	int fds[1 + ADAPTER_FILES_MAX] = {parent->models[adapter->model].copies[0].fd};
	int rc = order_fill(parent, adapter->path, adapter->name, adapter->id, &parent->plan.copy_nodes, &order, err);
	if (rc)
		return rc;
	if (segment_is_pooled(order.backing)) /* megabytes: no use for whole pages of a pool */
		order.backing = SEGMENT_MEMFD;
	if (adapter->again)
		return order_again(parent, adapter, &order, err);
	order.n_files = adapter->files.n;
	memcpy(fds + 1, adapter->files.fds, adapter->files.n * sizeof *fds);
	rc = message_send(parent->adapter_loader.fd, MESSAGE_LOAD_ADAPTER, &order, sizeof order, fds,
			  1 + adapter->files.n);
	return rc ? err_set(err, rc, "cannot give the loader its order: %s", strerror(-rc)) : 0;
}

/* A loader without an order ends, and its end is when the load fails. */
static void begin(struct parent *parent, struct parent_adapter *adapter)
{
	struct err err = {""};
	int rc = 0;
	if (!adapter->files.n && !adapter->again) /* of the settings: opened when its turn has come */
		rc = adapter_files_open(adapter->path, &adapter->files, &err);
	if (!rc)
		rc = child_spawn(&parent->adapter_loader, CHILD_ADAPTER_LOADER, "adapter loader",
				 (int)parent->config.log_level, &err);
	if (rc) {
		adapters_fail(parent, adapter, 500, err.text);
		return;
	}
	adapter->state = ADAPTER_LOADING;
	adapter->fault[0] = '\0';
	parent->adapter_loads = adapter;
	log_info("loading adapter '%s' of model '%s' from %s", adapter->name,
		 parent->models[adapter->model].config->name, adapter->again ? "memory" : adapter->path);
	rc = order(parent, adapter, &err);
	adapter_files_close(&adapter->files);
	if (!rc)
		return;
	adapter->fault_code = rc;
	snprintf(adapter->fault, sizeof adapter->fault, "%s", err.text);
	child_hang_up(&parent->adapter_loader);
}

void adapter_load_next(struct parent *parent, uint64_t now_ns)
{
	struct parent_adapter *next;
	for (struct parent_adapter *a = parent->adapters; a && !parent->adapter_loader.pid && !parent->stopping;
	     a = next) {
		next = a->next;
		if (a->state != ADAPTER_WAITING || parent->models[a->model].state != MODEL_LOADED ||
		    (a->load.due_ns && !backoff_take(&a->load, now_ns)))
			continue;
		begin(parent, a);
	}
}

static void take_segment(struct parent *parent, struct message *message)
{
	const struct message_segment *segment = message_payload(message, sizeof *segment, 1);
	struct parent_adapter *adapter = parent->adapter_loads;
	if (!segment || segment->backing > SEGMENT_POOL_1G || !adapter ||
	    adapter->n_copies == idset_count(&parent->plan.copy_nodes)) {
		for (uint32_t i = 0; i < message->n_fds; i++)
			close(message->fds[i]);
		return;
	}
	struct parent_copy *copy = &adapter->copies[adapter->n_copies++];
	copy_init(parent, copy, segment, message->fds[0]);
}

void adapter_loader_message(struct parent *parent, struct message *message)
{
	const struct message_failed *failed;
	switch (message->type) {
	case MESSAGE_SEGMENT:
		take_segment(parent, message);
		break;
	case MESSAGE_FAILED:
		failed = message_payload(message, sizeof *failed, 0);
		if (!failed || !parent->adapter_loads)
			break;
		parent->adapter_loads->fault_code = failed->code;
		snprintf(parent->adapter_loads->fault, sizeof parent->adapter_loads->fault, "%.255s", failed->err.text);
		break;
	default:
		log_warning("the adapter loader sent an unexpected message, type %u", message->type);
	}
}

/* What is wrong with the file is the client's to mend, the rest is ours. */
static int status_of(int code)
{
	return code == -EINVAL || code == -ENOTSUP ? 400 : 500;
}

static void fail(struct parent *parent, struct parent_adapter *adapter, int wait_status)
{
	char how[128], text[256];
	adapter_drop_copies(parent, adapter);
	if (adapter->fault[0])
		snprintf(text, sizeof text, "%s", adapter->fault);
	else
		snprintf(text, sizeof text, "the loader was %s%s",
			 child_describe(&parent->adapter_loader, wait_status, how, sizeof how),
			 wait_status == SIGKILL ? "; if the kernel's OOM killer did it, a node ran out of memory" : "");
	/* As with models: who was killed may have been in someone's way who is not there the next time. */
	if (adapter->configured && WIFSIGNALED(wait_status)) {
		backoff_failed(&adapter->load, clock_now_ns());
		adapter->state = ADAPTER_WAITING;
		if (!backoff_is_failing(&adapter->load)) {
			log_warning("adapter '%s': %s; it is loaded again", adapter->name, text);
			return;
		}
	}
	adapters_fail(parent, adapter, adapter->fault[0] ? status_of(adapter->fault_code) : 500, text);
}

void adapter_loader_ended(struct parent *parent, int wait_status)
{
	struct parent_adapter *adapter = parent->adapter_loads;
	parent->adapter_loads = NULL;
	if (!adapter || parent->stopping)
		return;
	if (wait_status == 0 && adapter->n_copies == idset_count(&parent->plan.copy_nodes))
		adapters_loaded(parent, adapter);
	else
		fail(parent, adapter, wait_status);
	adapter_load_next(parent, clock_now_ns());
}
