/* The settings as text: all keys explained, and the values in effect. */
#include <string.h>

#include "src/config_keys.h"

enum { HELP_COLUMNS = 100 };

/* Comment lines of whole words. */
static void print_wrapped(FILE *out, const char *text)
{
	size_t column = 0;
	while (*text) {
		size_t n = strcspn(text, " ");
		if (column == 0 || column + 1 + n > HELP_COLUMNS) {
			fprintf(out, "%s#", column ? "\n" : "");
			column = 1;
		}
		fprintf(out, " %.*s", (int)n, text);
		column += 1 + n;
		text += n + strspn(text + n, " ");
	}
	fputc('\n', out);
}

static void print_key(const struct config_key *key, const char *value, FILE *out)
{
	char allowed[128];
	fputc('\n', out);
	print_wrapped(out, key->help);
	fprintf(out, "# (%s)\n", config_key_allowed(key, allowed, sizeof allowed));
	fprintf(out, "#%s =%s%s\n", key->name, value[0] ? " " : "", value);
}

void config_print_keys(FILE *out)
{
	static const struct config_directories packaged = {"/run/weightd", "/var/lib/weightd", "/usr/share/weightd"};
	fprintf(out, "# weightd's settings: every key with what it takes and its default. Syntax: weightd.conf(5).\n"
		     "# A comment begins with '#' at the start of a line, or with ' ;' behind a value.\n"
		     "# Sizes take K, M, G, T. Paths are those of the installed service.\n"
		     "\n[weightd]\n");
	for (unsigned group = 0; group < N_GROUPS; group++) {
		fprintf(out, "\n# --- %s\n", config_sections[group].title);
		for (const struct config_key *key = config_sections[group].keys; key->name; key++) {
			char value[CONFIG_PATH];
			config_key_default(key, &packaged, value, sizeof value);
			print_key(key, value, out);
		}
	}
	fprintf(out, "\n# --- Models\n\n");
	print_wrapped(out,
		      "One section for each model that is served, under the name that clients use: either path = "
		      "FILE (GGUF, of a split model the first part, or a Hugging Face folder; a relative path begins "
		      "in model_dir) or pull = NAME for a model fetched with weightctl pull "
		      "NAME. Without "
		      "any such section all models of the catalogue that were pulled are served.");
	fprintf(out, "#[model smollm2]\n#pull = smollm2\n");
	for (const struct config_key *key = config_model_keys; key->name; key++)
		print_key(key, key->fallback, out);
	fprintf(out, "\n# --- Adapters\n\n");
	print_wrapped(out,
		      "One section for each LoRA adapter that is there from the start, under the name that clients "
		      "use as that of a model: path = FILE (GGUF, or a folder as PEFT writes it; a relative path "
		      "begins in adapter_dir, or in model_dir without that key) and model = NAME of the model it "
		      "was made for, which may be left out where there is only one.");
	fprintf(out, "#[adapter sales]\n#path = sales.gguf\n#model = smollm2\n");
}

void config_print(const struct config *config, FILE *out)
{
	fprintf(out, "[weightd]\n");
	for (unsigned group = 0; group < N_GROUPS; group++)
		for (const struct config_key *key = config_sections[group].keys; key->name; key++) {
			char value[CONFIG_PATH];
			config_key_format(key, config, value, sizeof value);
			fprintf(out, "%s =%s%s\n", key->name, value[0] ? " " : "", value);
		}
	for (uint32_t i = 0; i < config->n_models; i++) {
		fprintf(out, "\n[model %s]\npath = %s\n", config->models[i].name, config->models[i].path);
		for (const struct config_key *key = config_model_keys; key->name; key++) {
			char value[CONFIG_PATH];
			config_key_format(key, &config->models[i], value, sizeof value);
			fprintf(out, "%s =%s%s\n", key->name, value[0] ? " " : "", value);
		}
	}
	for (uint32_t i = 0; i < config->n_adapters; i++)
		fprintf(out, "\n[adapter %s]\npath = %s\nmodel = %s\n", config->adapters[i].name,
			config->adapters[i].path, config->adapters[i].model);
}
