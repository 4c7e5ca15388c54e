#include "src/front/dashboard.h"

#include <stdio.h>
#include <string.h>

#include "src/front/front.h"

/* The assembler takes the files in as they are: no table of numbers has to be made of them, and every compiler's
 * assembler can. Names are those beneath the build's top, where make runs. Texts end with a 0 of ours. */
__asm__(".pushsection .rodata\n"
	"dashboard_page:\n"
	".incbin \"src/front/dashboard_page.html\"\n"
	"dashboard_page_end:\n"
	"dashboard_policy:\n"
	".incbin \"src/front/dashboard_page.csp\"\n"
	".byte 0\n"
	"dashboard_etag:\n"
	".incbin \"src/front/dashboard_page.etag\"\n"
	".byte 0\n"
	".globl dashboard_page, dashboard_page_end, dashboard_policy, dashboard_etag\n"
	".hidden dashboard_page, dashboard_page_end, dashboard_policy, dashboard_etag\n"
	".popsection\n");
#define INSIDE __attribute__((visibility("hidden")))
extern const char dashboard_page[] INSIDE, dashboard_page_end[] INSIDE;
extern const char dashboard_policy[] INSIDE; /* Content-Security-Policy: nothing but the page's own style and script */
extern const char dashboard_etag[] INSIDE;   /* hex digits of the page's hash */

/* RFC 9110, 13.1.2: a list of tags, compared weakly, or "*". Tags of ours are hex digits, and so long that another's
 * does not hold one by chance. */
static bool has_page(const char *if_none_match)
{
	return strcmp(if_none_match, "*") == 0 || strstr(if_none_match, dashboard_etag);
}

void dashboard_answer(struct front *front, struct connection *connection, const struct http_request *http)
{
	char lines[1024];
	bool known = has_page(http->if_none_match);
	snprintf(lines, sizeof lines,
		 "ETag: \"%s\"\r\nCache-Control: no-cache\r\nContent-Security-Policy: %s\r\n"
		 "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n",
		 dashboard_etag, dashboard_policy);
	metrics_request(front, ROUTE_DASHBOARD, known ? 304 : 200);
	/* `gone` reports a client that went away. */
	connection_answer(connection, known ? 304 : 200, known ? NULL : "text/html; charset=utf-8", dashboard_page,
			  known ? 0 : (size_t)(dashboard_page_end - dashboard_page), lines);
}
