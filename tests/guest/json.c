/* json POINTER: prints the value at an RFC 6901 pointer of the JSON text on standard input, strings without quotes;
 * arrays and objects as the number of their members. Status 1 when there is nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

int main(int argc, char **argv)
{
	static char text[1 << 20];
	if (argc != 2) {
		fprintf(stderr, "usage: json POINTER <FILE\n");
		return 2;
	}
	size_t n = fread(text, 1, sizeof text, stdin);
	yyjson_doc *doc = yyjson_read(text, n, 0);
	if (!doc) {
		fprintf(stderr, "json: this is none: %.*s\n", (int)n, text);
		return 1;
	}
	yyjson_val *value = yyjson_doc_ptr_get(doc, argv[1]);
	int status = 0;
	if (yyjson_is_str(value))
		puts(yyjson_get_str(value));
	else if (yyjson_is_uint(value))
		printf("%" PRIu64 "\n", yyjson_get_uint(value));
	else if (yyjson_is_sint(value))
		printf("%" PRId64 "\n", yyjson_get_sint(value));
	else if (yyjson_is_real(value))
		printf("%g\n", yyjson_get_real(value));
	else if (yyjson_is_bool(value))
		puts(yyjson_get_bool(value) ? "true" : "false");
	else if (yyjson_is_ctn(value))
		printf("%zu\n", yyjson_get_len(value));
	else
		status = 1;
	yyjson_doc_free(doc);
	return status;
}
