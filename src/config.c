/* Loading weightd.conf: defaults, file, command line, then the checks that need all of them. */
#include "src/config.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/segment.h"
#include "src/catalogue.h"
#include "src/config_keys.h"
#include "src/inifile.h"

/* The first of systemd's colon-separated directories, if it set any. */
static bool from_systemd(const char *variable, char *out, size_t size)
{
	const char *value = getenv(variable);
	if (!value || value[0] != '/')
		return false;
	snprintf(out, size, "%.*s", (int)strcspn(value, ":"), value);
	return true;
}

static const char *home(void)
{
	const char *directory = getenv("HOME");
	if (directory && directory[0] == '/')
		return directory;
	const struct passwd *account = getpwuid(getuid());
	return account ? account->pw_dir : "/";
}

static void runtime_directory(char *out, size_t size)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	if (from_systemd("RUNTIME_DIRECTORY", out, size))
		return;
	if (geteuid() == 0)
		snprintf(out, size, "/run/weightd");
	else if (xdg && xdg[0] == '/')
		snprintf(out, size, "%s/weightd", xdg);
	else
		snprintf(out, size, "/tmp/weightd-%u", (unsigned)geteuid());
}

static void state_directory(char *out, size_t size)
{
	const char *xdg = getenv("XDG_CACHE_HOME");
	if (from_systemd("STATE_DIRECTORY", out, size))
		return;
	if (geteuid() == 0)
		snprintf(out, size, "/var/lib/weightd");
	else if (xdg && xdg[0] == '/')
		snprintf(out, size, "%s/weightd", xdg);
	else
		snprintf(out, size, "%s/.cache/weightd", home());
}

void config_defaults(struct config *out)
{
	char runtime[CONFIG_PATH], state[CONFIG_PATH], value[2 * CONFIG_PATH];
	runtime_directory(runtime, sizeof runtime);
	state_directory(state, sizeof state);
	const struct config_directories directories = {.runtime = runtime, .state = state, .data = PKGDATADIR};
	memset(out, 0, sizeof *out);
	/* Only a directory from the environment can be too long: the member then stays empty and config_finish says so.
	 */
	for (unsigned group = 0; group < N_GROUPS; group++)
		for (const struct config_key *key = config_sections[group].keys; key->name; key++)
			config_key_set(key, out, config_key_default(key, &directories, value, sizeof value), NULL);
}

static int set_by_name(struct config *config, const char *name, const char *value, struct err *err)
{
	const struct config_key *key = config_key_find(name);
	if (!key) {
		const char *nearest = config_key_nearest(name);
		if (nearest)
			return err_set(err, -EINVAL, "unknown key '%s'; did you mean '%s'?", name, nearest);
		return err_set(err, -EINVAL, "unknown key '%s'; weightd --help-config lists all", name);
	}
	struct err why = {""};
	int rc = config_key_set(key, config, value, &why);
	return rc < 0 ? err_set(err, rc, "%s: %s", name, why.text) : 0;
}

int config_set(struct config *config, const char *assignment, struct err *err)
{
	char name[64];
	size_t n = strcspn(assignment, "=");
	if (assignment[n] != '=' || n == 0 || n >= sizeof name)
		return err_set(err, -EINVAL, "'%.60s' is not key=value", assignment);
	memcpy(name, assignment, n);
	name[n] = '\0';
	return set_by_name(config, name, assignment + n + 1, err);
}

static int begin_model(struct config *config, const char *name, struct err *err)
{
	for (uint32_t i = 0; i < config->n_models; i++)
		if (!strcmp(config->models[i].name, name))
			return err_set(err, -EINVAL, "model %s comes twice", name);
	if (config->n_models == CONFIG_MODELS_MAX)
		return err_set(err, -EINVAL, "more than %d models", CONFIG_MODELS_MAX);
	strcpy(config->models[config->n_models++].name, name);
	return 0;
}

static int begin_adapter(struct config *config, const char *name, struct err *err)
{
	for (uint32_t i = 0; i < config->n_adapters; i++)
		if (!strcmp(config->adapters[i].name, name))
			return err_set(err, -EINVAL, "adapter %s comes twice", name);
	if (config->n_adapters == CONFIG_ADAPTERS_MAX)
		return err_set(err, -EINVAL, "more than %d adapters", CONFIG_ADAPTERS_MAX);
	strcpy(config->adapters[config->n_adapters++].name, name);
	return 0;
}

static bool is_model(const char *section)
{
	return !strncmp(section, "model ", 6);
}

static bool is_adapter(const char *section)
{
	return !strncmp(section, "adapter ", 8);
}

int config_check_model_name(const char *name, struct err *err)
{
	return config_check_name(name, "._-", INIFILE_NAME_MAX, err);
}

/* "model NAME" begins a model, "adapter NAME" an adapter; the name becomes part of shared memory names and of the API.
 */
static int begin_section(struct config *config, const char *section, struct err *err)
{
	struct err why;
	if (!strcmp(section, "weightd"))
		return 0;
	if (!is_model(section) && !is_adapter(section))
		return err_set(err, -EINVAL, "unknown section [%s]; known: [weightd], [model NAME] and [adapter NAME]",
			       section);
	const char *name = strchr(section, ' ');
	name += strspn(name, " ");
	if (config_check_model_name(name, &why) < 0)
		return err_set(err, -EINVAL, "the %s's name %s", is_model(section) ? "model" : "adapter", why.text);
	return is_model(section) ? begin_model(config, name, err) : begin_adapter(config, name, err);
}

static int refuse_model_key(const char *name, struct err *err)
{
	char known[200] = "path, pull";
	size_t n = strlen(known);
	for (const struct config_key *key = config_model_keys; key->name && n < sizeof known; key++)
		n += (size_t)snprintf(known + n, sizeof known - n, ", %s", key->name);
	return err_set(err, -EINVAL, "unknown key '%s' in a model's section; known: %s", name, known);
}

static int set_model_key(struct config_model *model, const char *name, const char *value, struct err *err)
{
	for (const struct config_key *key = config_model_keys; key->name; key++) {
		struct err why = {""};
		if (strcmp(name, key->name))
			continue;
		int rc = config_key_set(key, model, value, &why);
		return rc < 0 ? err_set(err, rc, "%s: %s", name, why.text) : 0;
	}
	char *member = !strcmp(name, "path") ? model->file : !strcmp(name, "pull") ? model->pull : NULL;
	size_t size = member == model->file ? sizeof model->file : sizeof model->pull;
	if (!member)
		return refuse_model_key(name, err);
	if (!value[0] || strlen(value) >= size)
		return err_set(err, -EINVAL, "%s: must have 1 to %zu characters", name, size - 1);
	strcpy(member, value);
	if (model->file[0] && model->pull[0])
		return err_set(err, -EINVAL, "%s: a model has either path or pull", name);
	return 0;
}

static int set_adapter_key(struct config_adapter *adapter, const char *name, const char *value, struct err *err)
{
	char *member = !strcmp(name, "path") ? adapter->file : !strcmp(name, "model") ? adapter->model : NULL;
	size_t size = member == adapter->file ? sizeof adapter->file : sizeof adapter->model;
	if (!member)
		return err_set(err, -EINVAL, "unknown key '%s' in an adapter's section; known: path, model", name);
	if (!value[0] || strlen(value) >= size)
		return err_set(err, -EINVAL, "%s: must have 1 to %zu characters", name, size - 1);
	strcpy(member, value);
	return 0;
}

static int read_entry(void *user, const struct inifile_entry *entry, struct err *err)
{
	struct config *config = user;
	if (!entry->key)
		return begin_section(config, entry->section, err);
	if (!strcmp(entry->section, "weightd"))
		return set_by_name(config, entry->key, entry->value, err);
	if (!entry->section[0])
		return err_set(err, -EINVAL, "%s: must stand under [weightd], [model NAME] or [adapter NAME]",
			       entry->key);
	if (is_adapter(entry->section))
		return set_adapter_key(&config->adapters[config->n_adapters - 1], entry->key, entry->value, err);
	return set_model_key(&config->models[config->n_models - 1], entry->key, entry->value, err);
}

int config_load(const char *path, struct config *out, struct err *err)
{
	config_defaults(out);
	FILE *file = fopen(path, "re");
	if (!file)
		return err_set(err, -errno, "%.160s: %s", path, strerror(errno));
	int rc = inifile_read(file, path, read_entry, out, err);
	fclose(file);
	return rc < 0 ? rc : config_finish(out, err);
}

/* `what` "model" or "adapter", and its name: for messages. */
static int set_path(char path[CONFIG_PATH], const char *directory, const char *file, const char *what, const char *name,
		    struct err *err)
{
	int n = file[0] == '/' ? snprintf(path, CONFIG_PATH, "%s", file)
			       : snprintf(path, CONFIG_PATH, "%s/%s", directory, file);
	if (n < 0 || n >= CONFIG_PATH)
		return err_set(err, -ENAMETOOLONG, "%s %s: the path is longer than %d characters", what, name,
			       CONFIG_PATH - 1);
	return 0;
}

static int find_written_models(struct config *config, const struct catalogue *catalogue, struct err *err)
{
	for (uint32_t i = 0; i < config->n_models; i++) {
		struct config_model *model = &config->models[i];
		const char *file = model->file;
		if (!file[0] && !model->pull[0])
			return err_set(err, -EINVAL, "[model %s]: needs path = FILE or pull = NAME", model->name);
		if (model->pull[0]) {
			struct err why;
			const struct catalogue_model *known = catalogue_find(catalogue, model->pull, &why);
			if (!known)
				return err_set(err, -EINVAL, "[model %s]: pull: %s", model->name, why.text);
			file = catalogue_place(known);
		}
		int rc = set_path(model->path, config->model_dir, file, "model", model->name, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* No model is named in the file: whatever was pulled is served. */
static int find_pulled_models(struct config *config, const struct catalogue *catalogue, struct err *err)
{
	for (unsigned i = 0; i < catalogue->n_models && config->n_models < CONFIG_MODELS_MAX; i++) {
		const struct catalogue_model *known = &catalogue->models[i];
		struct config_model *model = &config->models[config->n_models];
		memset(model, 0, sizeof *model);
		int rc = set_path(model->path, config->model_dir, catalogue_place(known), "model", known->name, err);
		if (rc < 0)
			return rc;
		if (config_check_model_name(known->name, NULL) < 0 || access(model->path, F_OK) < 0)
			continue;
		strcpy(model->name, known->name);
		strcpy(model->pull, known->name);
		model->implied = true;
		config->n_models++;
	}
	return 0;
}

static int find_models(struct config *config, struct err *err)
{
	while (config->n_models && config->models[config->n_models - 1].implied)
		config->n_models--;
	bool written = config->n_models > 0, needed = false;
	for (uint32_t i = 0; i < config->n_models; i++)
		needed |= config->models[i].pull[0] != '\0';
	struct catalogue *catalogue = NULL;
	if (needed || !written) {
		int rc = catalogue_load(config->catalogue, &catalogue, err);
		if (rc == -ENOENT && !needed)
			return 0;
		if (rc < 0)
			return rc;
	}
	int rc = written ? find_written_models(config, catalogue, err) : find_pulled_models(config, catalogue, err);
	catalogue_free(catalogue);
	return rc;
}

static const struct config_model *find_model(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_models; i++)
		if (!strcmp(config->models[i].name, name))
			return &config->models[i];
	return NULL;
}

/* Once the models are known: an adapter's file, and the model it is for. */
static int finish_adapter(const struct config *config, struct config_adapter *adapter, struct err *err)
{
	if (!adapter->file[0])
		return err_set(err, -EINVAL, "[adapter %s]: needs path = FILE", adapter->name);
	if (find_model(config, adapter->name))
		return err_set(err, -EINVAL,
			       "[adapter %s]: a model has this name, and clients could not tell them apart",
			       adapter->name);
	if (!adapter->model[0] && config->n_models == 1)
		strcpy(adapter->model, config->models[0].name);
	if (!adapter->model[0])
		return err_set(err, -EINVAL, "[adapter %s]: needs model = NAME: there are %u models", adapter->name,
			       config->n_models);
	if (!find_model(config, adapter->model))
		return err_set(err, -EINVAL, "[adapter %s]: model: there is no model '%s'", adapter->name,
			       adapter->model);
	return set_path(adapter->path, config->adapter_dir[0] ? config->adapter_dir : config->model_dir, adapter->file,
			"adapter", adapter->name, err);
}

static int find_adapters(struct config *config, struct err *err)
{
	int rc = 0;
	if (config->n_adapters > config->max_adapters)
		return err_set(err, -EINVAL, "max_adapters: %u adapters have sections, allowed are %u",
			       config->n_adapters, config->max_adapters);
	for (uint32_t i = 0; i < config->n_adapters && rc == 0; i++)
		rc = finish_adapter(config, &config->adapters[i], err);
	return rc;
}

static int check_accounts(const struct config *config, struct err *err)
{
	if (config->user[0] && !getpwnam(config->user))
		return err_set(err, -EINVAL, "user: no user '%s' on this machine", config->user);
	if (config->socket_group[0] && !getgrnam(config->socket_group))
		return err_set(err, -EINVAL, "socket_group: no group '%s' on this machine", config->socket_group);
	return 0;
}

/* numactl's memory policies exclude each other, and those that say where copies are need no other placement. */
static int check_policy(const struct config *config, struct err *err)
{
	const struct {
		const char *key;
		bool set;
		const char *placement; /* the one that it means; NULL: goes with any */
	} policies[] = {
		{"membind", strcmp(config->membind, "all") != 0, NULL},
		{"preferred", config->preferred[0] != '\0', "one"},
		{"interleave", config->interleave[0] != '\0', "interleave"},
		{"localalloc", config->localalloc, "node"},
	};
	const char *first = NULL;
	bool spread = config->interleave[0] || !strcmp(config->placement, "interleave") ||
		      !strcmp(config->placement, "socket");
	if (spread && config->backing == SEGMENT_POOL_1G)
		return err_set(err, -EINVAL, "backing: pages of 1 GiB are too large to be spread over nodes as %s says",
			       config->interleave[0] ? "interleave" : "placement");
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		if (!policies[i].set)
			continue;
		if (first)
			return err_set(err, -EINVAL, "%s: not together with %s: memory has one policy", policies[i].key,
				       first);
		first = policies[i].key;
		if (policies[i].placement && strcmp(config->placement, "node") &&
		    strcmp(config->placement, policies[i].placement))
			return err_set(err, -EINVAL, "%s: means placement = %s, which is %s", first,
				       policies[i].placement, config->placement);
	}
	return 0;
}

/* What a pool has are huge pages. */
static int check_pages(const struct config *config, struct err *err)
{
	if (segment_is_pooled(config->backing) && config->huge_pages == SEGMENT_HUGE_OFF)
		return err_set(err, -EINVAL, "huge_pages: off contradicts backing = hugetlb");
	return 0;
}

int config_finish(struct config *config, struct err *err)
{
	if (!config->socket[0] || !config->control_socket[0])
		return err_set(err, -ENAMETOOLONG,
			       "socket, control_socket: the runtime directory's path is too long for a socket (%zu "
			       "characters)",
			       sizeof config->socket - 1);
	if (!config->model_dir[0])
		return err_set(err, -ENAMETOOLONG, "model_dir: the state directory's path is too long");
	if (!strcmp(config->socket, config->control_socket))
		return err_set(err, -EINVAL, "control_socket: must differ from socket (%s)", config->socket);
	int rc = check_policy(config, err);
	if (rc == 0)
		rc = check_pages(config, err);
	if (rc == 0)
		rc = check_accounts(config, err);
	if (rc == 0)
		rc = find_models(config, err);
	return rc < 0 ? rc : find_adapters(config, err);
}
