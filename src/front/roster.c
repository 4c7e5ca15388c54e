#include "src/front/roster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void forget(struct front_adapter *adapter)
{
	struct front_adapter **at = &adapter->roster->first;
	while (*at != adapter)
		at = &(*at)->next;
	*at = adapter->next;
	free(adapter);
}

static void settle(struct front_adapter *adapter)
{
	if (adapter->retired && !adapter->n_holders && adapter->roster->idle(adapter->is.id))
		forget(adapter);
}

void roster_fini(struct roster *roster)
{
	while (roster->first)
		forget(roster->first);
}

int roster_up(struct roster *roster, const struct message_adapter_up *up)
{
	struct front_adapter **end = &roster->first;
	if (!memchr(up->name, '\0', sizeof up->name) || !memchr(up->model, '\0', sizeof up->model) ||
	    !memchr(up->path, '\0', sizeof up->path))
		return -EPROTO;
	struct front_adapter *old = roster_find(roster, up->name, strlen(up->name)),
			     *adapter = calloc(1, sizeof *adapter);
	if (!adapter)
		return -ENOMEM;
	while (*end)
		end = &(*end)->next;
	*end = adapter;
	adapter->roster = roster;
	adapter->is = *up;
	adapter->n_total = old ? old->n_total : 0;
	if (old)
		roster_down(roster, old->is.id);
	return 0;
}

void roster_down(struct roster *roster, uint32_t id)
{
	for (struct front_adapter *a = roster->first; a; a = a->next)
		if (a->is.id == id) {
			a->retired = true;
			settle(a);
			return;
		}
}

struct front_adapter *roster_find(const struct roster *roster, const char *name, size_t n_bytes)
{
	for (struct front_adapter *a = roster->first; a; a = a->next)
		if (!a->retired && strlen(a->is.name) == n_bytes && !memcmp(a->is.name, name, n_bytes))
			return a;
	return NULL;
}

struct front_adapter *roster_hold(struct front_adapter *adapter)
{
	if (adapter)
		adapter->n_holders++;
	return adapter;
}

void roster_release(struct front_adapter *adapter)
{
	if (!adapter)
		return;
	adapter->n_holders--;
	settle(adapter);
}

void roster_sweep(struct roster *roster)
{
	struct front_adapter *next;
	for (struct front_adapter *a = roster->first; a; a = next) {
		next = a->next;
		settle(a);
	}
}
