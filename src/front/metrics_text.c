#include "src/front/metrics_text.h"

void metrics_text_family(struct api_json *out, const char *name, const char *type, const char *help)
{
	api_json_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_text_single(struct api_json *out, const char *name, const char *type, const char *help, uint64_t value)
{
	metrics_text_family(out, name, type, help);
	api_json_format(out, "%s %llu\n", name, (unsigned long long)value);
}

void metrics_text_single_f64(struct api_json *out, const char *name, const char *type, const char *help, double value)
{
	metrics_text_family(out, name, type, help);
	api_json_format(out, "%s %.9g\n", name, value);
}

void metrics_text_label(struct api_json *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			api_json_text(out, "\\n");
		else if (*value == '\\' || *value == '"')
			api_json_format(out, "\\%c", *value);
		else
			api_json_raw(out, value, 1);
	}
}
