/* weightctl status: the daemon's own JSON, passed on or laid out for people. What it says of placement is what the
 * kernel said of every page; nothing is rounded into "fine" here. */
#include <inttypes.h>
#include <string.h>
#include <yyjson.h>

#include "src/ctl/control_object.h"
#include "src/ctl/table.h"
#include "src/ctl/weightctl.h"

/* Members by name; what is absent reads as "-" or 0, so that a newer client can read an older daemon. */
static const char *text_of(yyjson_val *object, const char *key)
{
	const char *text = yyjson_get_str(yyjson_obj_get(object, key));
	return text && text[0] ? text : "-";
}

static uint64_t number_of(yyjson_val *object, const char *key)
{
	return yyjson_get_uint(yyjson_obj_get(object, key));
}

static void bytes_cell(struct table *table, yyjson_val *object, const char *key)
{
	char text[TABLE_UNIT_TEXT];
	table_cell(table, "%s", table_bytes(number_of(object, key), text));
}

static void number_cell(struct table *table, yyjson_val *object, const char *key)
{
	table_cell(table, "%" PRIu64, number_of(object, key));
}

static void text_cell(struct table *table, yyjson_val *object, const char *key)
{
	table_cell(table, "%s", text_of(object, key));
}

static void print_table(struct table *table)
{
	putchar('\n');
	table_print(table, stdout);
	table_free(table);
}

/* What becomes of a reload, and what became of the last one if it failed. */
static void print_change(yyjson_val *model)
{
	yyjson_val *change = yyjson_obj_get(model, "change");
	const char *name = text_of(model, "name");
	if (yyjson_obj_get(model, "change_error"))
		printf("%s: the last reload failed: %s\n", name, text_of(model, "change_error"));
	if (change && !strcmp(text_of(change, "state"), "leaving"))
		printf("%s: generation %" PRIu64 " has taken over; calls of the one before it end\n", name,
		       number_of(change, "generation"));
	else if (change)
		printf("%s: generation %" PRIu64 " comes: %s\n", name, number_of(change, "generation"),
		       text_of(change, "state"));
}

static void print_models(yyjson_val *models)
{
	struct table *table =
		table_new("MODEL|STATE|ARCH|>GENERATION|>CONTEXT|CPU|NUMERICS|KV|BACKING|RESTART|ADOPTED|FILE");
	yyjson_val *model;
	size_t i, n;
	if (!table)
		return;
	yyjson_arr_foreach(models, i, n, model)
	{
		text_cell(table, model, "name");
		text_cell(table, model, "state");
		text_cell(table, model, "architecture");
		number_cell(table, model, "generation");
		number_cell(table, model, "context_tokens");
		text_cell(table, model, "cpu_level");
		text_cell(table, model, "numerics");
		text_cell(table, model, "kv_type");
		text_cell(table, model, "backing");
		text_cell(table, model, "restart");
		table_cell(table, "%s", yyjson_get_bool(yyjson_obj_get(model, "adopted")) ? "yes" : "no");
		text_cell(table, model, "path");
	}
	print_table(table);
	yyjson_arr_foreach(models, i, n, model)
	{
		if (yyjson_obj_get(model, "error"))
			printf("%s: %s\n", text_of(model, "name"), text_of(model, "error"));
		print_change(model);
	}
}

void adapters_print(yyjson_val *adapters)
{
	struct table *table = table_new("ADAPTER|MODEL|STATE|PATH");
	yyjson_val *adapter;
	size_t i, n;
	if (!table)
		return;
	yyjson_arr_foreach(adapters, i, n, adapter)
	{
		text_cell(table, adapter, "name");
		text_cell(table, adapter, "model");
		text_cell(table, adapter, "state");
		text_cell(table, adapter, "path");
	}
	table_print(table, stdout);
	table_free(table);
	yyjson_arr_foreach(adapters, i, n, adapter)
	{
		if (yyjson_obj_get(adapter, "error"))
			printf("%s: %s\n", text_of(adapter, "name"), text_of(adapter, "error"));
	}
}

/* Of models or adapters. */
static void add_copies(struct table *table, yyjson_val *models)
{
	yyjson_val *model, *copy;
	size_t i, n, j, m;
	yyjson_arr_foreach(models, i, n, model)
	{
		yyjson_arr_foreach(yyjson_obj_get(model, "copies"), j, m, copy)
		{
			char ago[TABLE_UNIT_TEXT];
			text_cell(table, model, "name");
			if (yyjson_obj_get(copy, "interleaved"))
				text_cell(table, copy, "interleaved");
			else
				number_cell(table, copy, "node");
			bytes_cell(table, copy, "bytes");
			bytes_cell(table, copy, "small_bytes");
			bytes_cell(table, copy, "huge_bytes");
			bytes_cell(table, copy, "giant_bytes");
			number_cell(table, copy, "pages");
			number_cell(table, copy, "on_node");
			number_cell(table, copy, "misplaced");
			number_cell(table, copy, "absent");
			number_cell(table, copy, "unknown");
			text_cell(table, copy, "placement");
			uint64_t ms = number_of(copy, "checked_ms_ago");
			if (ms < 1000)
				table_cell(table, "now");
			else
				table_cell(table, "%s ago", table_duration((double)ms / 1000, ago));
			text_cell(table, copy, "segment");
		}
	}
}

void copies_print(yyjson_val *root)
{
	struct table *table = table_new("COPY OF|>NODE|>SIZE|>4K|>2M|>1G|>PAGES|>ON "
					"NODE|>MISPLACED|>ABSENT|>UNKNOWN|PLACEMENT|>CHECKED|SEGMENT");
	if (!table)
		return;
	add_copies(table, yyjson_obj_get(root, "models"));
	add_copies(table, yyjson_obj_get(root, "adapters"));
	print_table(table);
}

/* How the processes before the present ones ended, and when one that is away comes back. */
static void print_ends(yyjson_val *workers, const char *what)
{
	yyjson_val *worker;
	size_t i, n;
	yyjson_arr_foreach(workers, i, n, worker)
	{
		char text[TABLE_UNIT_TEXT];
		if (!yyjson_obj_get(worker, "last_end"))
			continue;
		printf("%s %" PRIu64 " ended %s ago: %s", what, number_of(worker, "index"),
		       table_duration((double)number_of(worker, "last_end_ms_ago") / 1000, text),
		       text_of(worker, "last_end"));
		if (yyjson_obj_get(worker, "restart_in_ms"))
			printf("; it is started again in %s",
			       table_duration((double)number_of(worker, "restart_in_ms") / 1000, text));
		putchar('\n');
	}
}

/* Those that it should have, and which of them there are not. */
static void cpus_cell(struct table *table, yyjson_val *worker)
{
	const char *cpus = text_of(worker, "cpus"), *gone = yyjson_get_str(yyjson_obj_get(worker, "cpus_gone"));
	if (gone && *gone)
		table_cell(table, "%s (gone: %s)", cpus, gone);
	else
		table_cell(table, "%s", cpus);
}

/* Call memory: what a worker keeps for itself now and at most so far; the arena is the part for calls. */
static void print_workers(yyjson_val *workers)
{
	struct table *table = table_new("WORKER|>PID|>NODE|CPUS|MODEL|STATE|>RESTARTS|>RUNNING|>WAITING|>KV "
					"PAGES|>ARENA|>PEAK|>PRIVATE|>PEAK|WEIGHTS");
	yyjson_val *worker;
	size_t i, n;
	if (!table)
		return;
	yyjson_arr_foreach(workers, i, n, worker)
	{
		number_cell(table, worker, "index");
		number_cell(table, worker, "pid");
		number_cell(table, worker, "node");
		cpus_cell(table, worker);
		text_cell(table, worker, "model");
		table_cell(table, "%s%s", text_of(worker, "state"),
			   yyjson_get_bool(yyjson_obj_get(worker, "oversubscribed")) ? ", oversubscribed" : "");
		number_cell(table, worker, "restarts");
		number_cell(table, worker, "running");
		number_cell(table, worker, "waiting");
		table_cell(table, "%" PRIu64 "/%" PRIu64, number_of(worker, "kv_pages_used"),
			   number_of(worker, "kv_pages"));
		bytes_cell(table, worker, "arena_bytes");
		bytes_cell(table, worker, "arena_peak_bytes");
		bytes_cell(table, worker, "private_bytes");
		bytes_cell(table, worker, "private_peak_bytes");
		table_cell(table, "%s", yyjson_get_bool(yyjson_obj_get(worker, "locked")) ? "locked" : "unlocked");
	}
	print_table(table);
	print_ends(workers, "worker");
}

/* Processes that decode audio: there while a speech model is served. */
static void print_audio(yyjson_val *all)
{
	struct table *table = table_new("AUDIO|>PID|STATE|>RESTARTS|>RUNNING|>CALLS|>FAILED|>PRIVATE|>PEAK");
	yyjson_val *audio;
	size_t i, n;
	if (!table)
		return;
	yyjson_arr_foreach(all, i, n, audio)
	{
		number_cell(table, audio, "index");
		number_cell(table, audio, "pid");
		text_cell(table, audio, "state");
		number_cell(table, audio, "restarts");
		number_cell(table, audio, "running");
		number_cell(table, audio, "calls");
		number_cell(table, audio, "failed");
		bytes_cell(table, audio, "private_bytes");
		bytes_cell(table, audio, "private_peak_bytes");
	}
	print_table(table);
	print_ends(all, "audio");
}

static void print_totals(yyjson_val *root)
{
	char front[TABLE_UNIT_TEXT], parent[TABLE_UNIT_TEXT], now[TABLE_UNIT_TEXT], peak[TABLE_UNIT_TEXT];
	yyjson_val *front_object = yyjson_obj_get(root, "front"), *parent_object = yyjson_obj_get(root, "parent");
	printf("\nprivate memory: front (pid %" PRIu64 ") %s, parent %s, all processes %s (peak %s)\n",
	       number_of(front_object, "pid"), table_bytes(number_of(front_object, "private_bytes"), front),
	       table_bytes(number_of(parent_object, "private_bytes"), parent),
	       table_bytes(number_of(root, "private_bytes_total"), now),
	       table_bytes(number_of(root, "private_peak_bytes_total"), peak));
}

/* Of one copy the table tells. */
static void print_placement(yyjson_val *root)
{
	yyjson_val *refused = yyjson_obj_get(root, "refused_calls"), *name, *error;
	size_t i, n;
	if (!yyjson_obj_size(refused))
		return;
	printf("placement is %s: the kernel refuses", text_of(root, "placement"));
	yyjson_obj_foreach(refused, i, n, name, error)
		printf("%s %s (%s)", i ? "," : "", yyjson_get_str(name), yyjson_get_str(error));
	putchar('\n');
}

static void print_for_people(yyjson_val *root)
{
	char uptime[TABLE_UNIT_TEXT];
	yyjson_val *models = yyjson_obj_get(root, "models"), *workers = yyjson_obj_get(root, "workers");
	yyjson_val *adapters = yyjson_obj_get(root, "adapters");
	printf("weightd %s, instance %s, pid %" PRIu64 ": %s, up %s\n", text_of(root, "version"),
	       text_of(root, "instance"), number_of(root, "pid"), text_of(root, "state"),
	       table_duration(yyjson_get_num(yyjson_obj_get(root, "uptime_s")), uptime));
	printf("socket %s, listen %s, io %s\n", text_of(root, "socket"), text_of(root, "listen"), text_of(root, "io"));
	print_placement(root);
	if (yyjson_arr_size(models)) {
		print_models(models);
		copies_print(root);
	}
	if (yyjson_arr_size(workers))
		print_workers(workers);
	if (yyjson_arr_size(yyjson_obj_get(root, "audio")))
		print_audio(yyjson_obj_get(root, "audio"));
	if (yyjson_arr_size(adapters)) {
		putchar('\n');
		adapters_print(adapters);
	}
	print_totals(root);
}

/* An adapter that was unloaded or replaced, and goes with its last call. */
static bool goes(yyjson_val *owner)
{
	return !strcmp(text_of(owner, "state"), "unloaded, in use");
}

/* No page is known to be on a wrong node, of what new calls may have. */
static bool all_placed(yyjson_val *owners)
{
	yyjson_val *owner, *copy;
	size_t i, n, j, m;
	yyjson_arr_foreach(owners, i, n, owner)
	{
		yyjson_arr_foreach(goes(owner) ? NULL : yyjson_obj_get(owner, "copies"), j, m, copy)
		{
			if (number_of(copy, "misplaced") || !strcmp(text_of(copy, "placement"), "misplaced"))
				return false;
		}
	}
	return true;
}

bool copies_are_placed(yyjson_val *root)
{
	return all_placed(yyjson_obj_get(root, "models")) && all_placed(yyjson_obj_get(root, "adapters"));
}

static bool all_well(yyjson_val *root)
{
	return !strcmp(text_of(root, "state"), "ready") && copies_are_placed(root);
}

int weightctl_status(struct weightctl *ctl)
{
	struct err err = {""};
	yyjson_doc *doc;
	enum weightctl_exit code = control_object(ctl, "status", &doc, &err);
	if (code != EXIT_OK)
		return control_object_fail(ctl, code, "status", &err);
	yyjson_val *root = yyjson_doc_get_root(doc);
	int rc = EXIT_OK;
	if (ctl->json)
		rc = weightctl_print_json(ctl, yyjson_doc_mut_copy(doc, NULL));
	else
		print_for_people(root);
	if (rc == EXIT_OK && !all_well(root))
		rc = EXIT_FAILED;
	yyjson_doc_free(doc);
	return rc;
}
