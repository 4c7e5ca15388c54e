/* A template, a zero byte, and JSON variables (none if there is no zero byte). Either is refused with an error and
 * words, or the text is valid UTF-8, ends with the terminator, and comes out the same a second time. Limits are small,
 * so that inputs which loop end soon. */
#include <stdlib.h>
#include <string.h>

#include "src/engine/template.h"
#include "src/engine/template/text.h"
#include "tests/fuzz/fuzz.h"

static void must(bool holds)
{
	if (!holds)
		abort();
}

static int render(const struct template *template, const struct template_input *input, char **text, size_t *n_bytes)
{
	static const struct template_limits limits = {
		.steps = 50000, .depth = 100, .output_bytes = 1 << 20, .memory_bytes = 4 << 20};
	struct err err = {0};
	int rc = template_render(template, input, &limits, text, n_bytes, &err);
	must(rc <= 0);
	if (!rc)
		must((*text)[*n_bytes] == 0 && text_valid_utf8(*text, *n_bytes));
	return rc;
}

/* A step at a time: the same text. */
static void render_slowly(const struct template *template, const struct template_input *input, char **text,
			  size_t *n_bytes)
{
	struct template_rendering *rendering;
	struct err err = {0};
	int rc;
	must(!template_rendering_begin(template, input, NULL, &rendering));
	do
		rc = template_rendering_advance(rendering, 1, &err);
	while (rc > 0);
	must(!rc);
	*text = template_rendering_take(rendering, n_bytes);
	template_rendering_end(rendering);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	const char *source = (const char *)bytes;
	const char *zero = n_bytes ? memchr(source, 0, n_bytes) : NULL;
	size_t n_source = zero ? (size_t)(zero - source) : n_bytes;
	struct template *template = NULL;
	struct err err = {0};
	int rc = template_compile(n_source ? source : "", n_source, &template, &err);
	must(rc <= 0 && (rc == 0 || (err.text[0] && !template)));
	if (rc)
		return 0;
	struct template_input input = {
		.messages_json =
			"[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"h\\u00e9llo "
			"\\ud83d\\ude00\"},"
			"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
			"\"arguments\":{\"a\":[1,2.5,true]}}}]}]",
		.variables_json = zero ? zero + 1 : NULL,
		.variables_bytes = zero ? n_bytes - n_source - 1 : 0,
		.bos_token = "<s>",
		.eos_token = "</s>",
		.add_generation_prompt = true,
	};
	input.messages_bytes = strlen(input.messages_json);
	char *text, *again;
	size_t n_text, n_again;
	rc = render(template, &input, &text, &n_text);
	if (!rc) {
		render_slowly(template, &input, &again, &n_again);
		must(n_again == n_text && memcmp(again, text, n_text) == 0);
		free(again);
		free(text);
	}
	template_free(template);
	return 0;
}
