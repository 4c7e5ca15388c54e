#include "src/engine/family.h"

#include <stdio.h>
#include <string.h>

static const struct family *const families[] = {&family_llama};

const struct family *family_get(uint32_t id)
{
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if ((uint32_t)families[i]->id == id)
			return families[i];
	return NULL;
}

const struct family *family_find(const char *name, size_t name_bytes)
{
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (strlen(families[i]->name) == name_bytes && memcmp(families[i]->name, name, name_bytes) == 0)
			return families[i];
	return NULL;
}

const char *family_tensor_name(const struct family_tensor *tensor, char out[FAMILY_NAME_BYTES])
{
	const char *layer = strchr(tensor->pattern, '%');
	if (layer)
		snprintf(out, FAMILY_NAME_BYTES, "%.*s%u%s", (int)(layer - tensor->pattern), tensor->pattern,
			 tensor->layer, layer + 1);
	else
		snprintf(out, FAMILY_NAME_BYTES, "%s", tensor->pattern);
	return out;
}
