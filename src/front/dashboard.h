/* GET /: the dashboard, a page for people. It is made of src/front/dashboard/ when the program is built, holds nothing
 * of this server, and gets what it shows from /v1/status with its reader's key. */
#ifndef WEIGHTD_SRC_FRONT_DASHBOARD_H
#define WEIGHTD_SRC_FRONT_DASHBOARD_H

struct connection;
struct front;
struct http_request;

/* The page, or 304 to a browser that has it. `http`: a GET or HEAD of "/". */
void dashboard_answer(struct front *front, struct connection *connection, const struct http_request *http);

#endif
